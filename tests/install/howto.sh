#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of every how-to page run, in their order, and say what the page
# says: each line of a text block is in the output of the commands before it.
# labels: prefix
set -euo pipefail
pages=$FLASHACL_SOURCE/docs/howto
. "$FLASHACL_PREFIX/set_env.sh"
failed=0

# blocks PAGE FOLDER: writes 1.sh, 1.text, 2.sh, ...: a text block has the number
# of the commands before it.
blocks() {
  awk -v folder="$2" '
    /^```(sh|text)$/ && !inside {
      kind = substr($0, 4)
      if (kind == "sh") ++number
      inside = 1
      next
    }
    /^```/ && inside { inside = 0; next }
    inside { print > (folder "/" number "." kind) }
    # Blocks of other kinds are skipped whole.
    /^```/ && !inside { skipping = !skipping }
  ' "$1"
}

ran=0
for page in "$pages"/*.md; do
  name=$(basename "$page" .md)
  work=$(mktemp -d)
  mkdir "$work/blocks" "$work/run"
  blocks "$page" "$work/blocks"
  for ((n = 1; ; ++n)); do
    commands=$work/blocks/$n.sh
    [ -e "$commands" ] || break
    ran=$((ran + 1))
    if ! (cd "$work/run" && bash -euo pipefail "$commands") \
        >"$work/out" 2>&1 </dev/null; then
      echo "howto: $name: block $n fails:" >&2
      cat "$commands" "$work/out" >&2
      failed=1
      continue
    fi
    [ -e "$work/blocks/$n.text" ] || continue
    while IFS= read -r line; do
      if ! grep -qF -- "$line" "$work/out"; then
        echo "howto: $name: block $n does not say '$line' but:" >&2
        cat "$work/out" >&2
        failed=1
      fi
    done <"$work/blocks/$n.text"
  done
  rm -rf "$work"
done
[ "$ran" -ge 10 ] || { echo "howto: only $ran blocks found" >&2; failed=1; }
exit "$failed"
