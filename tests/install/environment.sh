#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sourcing set_env.sh sets CANN's variables in every shell, also after the
# prefix was moved to a folder with a blank in its name, and adds paths once.
# labels: prefix
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
moved="$work/a prefix"
cp -a "$FLASHACL_PREFIX" "$moved"

cat >"$work/show" <<'SHOW'
echo "$ASCEND_HOME_PATH|$ASCEND_TOOLKIT_HOME|$ASCEND_AICPU_PATH"
echo "$ASCEND_CUSTOM_PATH|$DDK_PATH|$NPU_HOST_LIB"
echo "$ASCEND_OPP_PATH|$LD_LIBRARY_PATH|${PATH%%:*}"
SHOW
cat >"$work/want" <<WANT
$moved|$moved|$moved
$moved|$moved|$moved/runtime/lib64/stub
$moved/opp|$moved/lib64:/somewhere|$moved/bin
WANT

failed=0
# check SHELL WORDS...: sourcing by these words in SHELL gives what is wanted.
check() {
  local shell=$1
  shift
  cd "$work"
  printf '%s\n' "$@" '. "$SHOW"' >"$work/script"
  if ! env -i PATH="$PATH" LD_LIBRARY_PATH=/somewhere P="$moved" \
      SHOW="$work/show" "$shell" "$work/script" >"$work/got" 2>"$work/err" ||
      ! diff "$work/want" "$work/got" || [ -s "$work/err" ]; then
    echo "environment: $shell: $*" >&2
    cat "$work/err" >&2
    failed=1
  fi
}

for shell in bash zsh dash; do
  check "$shell" '. "$P/set_env.sh"'
  check "$shell" 'set -eu' '. "$P/set_env.sh"'
  check "$shell" '. "$P/set_env.sh"' '. "$P/set_env.sh"'
  check "$shell" 'cd "$P"' '. ./set_env.sh'
done
check bash 'source "$P/bin/setenv.bash"'
check bash 'cd "$P" && source set_env.sh'
check zsh 'source "$P/set_env.sh"'

# What an older build file reads follows the toolkit that is sourced last, but
# stays where the user has pointed it at something else.
cp -a "$moved" "$work/first"
older='echo "$ASCEND_CUSTOM_PATH|$DDK_PATH|$NPU_HOST_LIB"'
for shell in bash zsh dash; do
  got=$(env -i PATH="$PATH" "$shell" -euc "
    DDK_PATH=/mine
    . '$work/first/set_env.sh'
    . '$moved/set_env.sh'
    $older")
  if [ "$got" != "$moved|/mine|$moved/runtime/lib64/stub" ]; then
    echo "environment: $shell: two prefixes and a DDK_PATH: $got" >&2
    failed=1
  fi
done

# Run instead of sourced it says how to source it.
for shell in bash zsh dash; do
  if "$shell" "$moved/set_env.sh" >"$work/got" 2>"$work/err"; then
    echo "environment: $shell set_env.sh succeeds without any effect" >&2
    failed=1
  fi
  if [ -s "$work/got" ] || ! grep -qF "source $moved/set_env.sh" "$work/err"
  then
    echo "environment: $shell set_env.sh does not say what to type" >&2
    failed=1
  fi
done

# Nothing of the script's own is left.
left=$(bash -c '. "$1/set_env.sh"; set' - "$moved" | grep _flashacl_ || true)
[ -z "$left" ] || { echo "environment: left: $left" >&2; failed=1; }

# A prefix that is not one is refused.
mkdir "$work/empty"
cp "$moved/set_env.sh" "$work/empty"
if bash -c '. "$1/empty/set_env.sh"' - "$work" 2>/dev/null; then
  echo "environment: accepted a folder without the library" >&2
  failed=1
fi
exit "$failed"
