#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Source this to use FlashACL where a program expects CANN:
#   source PREFIX/set_env.sh        (bash, zsh)        . PREFIX/set_env.sh
# The prefix is the folder of this file, wherever it was moved to.

# Run instead of sourced it would set what nobody sees.
_flashacl_run=
if [ -n "${BASH_SOURCE:-}" ]; then
  [ "$BASH_SOURCE" != "$0" ] || _flashacl_run=yes
elif [ -n "${ZSH_VERSION:-}" ]; then
  case ${ZSH_EVAL_CONTEXT:-} in
    *file*) ;;
    *) _flashacl_run=yes ;;
  esac
else
  case $0 in
    set_env.sh|*/set_env.sh) _flashacl_run=yes ;;
  esac
fi
if [ -n "$_flashacl_run" ]; then
  echo "$0 sets variables of the shell that sources it; please type:" >&2
  echo "  source $0" >&2
  exit 1
fi
unset _flashacl_run

_flashacl_file=
if [ -n "${BASH_SOURCE:-}" ]; then
  _flashacl_file=${BASH_SOURCE}
elif [ -n "${ZSH_VERSION:-}" ]; then
  # Hidden in eval, because other shells cannot read this expansion.
  eval '_flashacl_file=${(%):-%x}'
else
  # dash and ash do not tell the name of a sourced file, but hold it open.
  for _flashacl_open in /proc/$$/fd/*; do
    _flashacl_open=$(readlink "$_flashacl_open" 2>/dev/null)
    case $_flashacl_open in
      */set_env.sh) _flashacl_file=$_flashacl_open ;;
    esac
  done
  unset _flashacl_open
fi

_flashacl_prefix=
if [ -n "$_flashacl_file" ]; then
  _flashacl_prefix=$(CDPATH= cd -- "$(dirname -- "$_flashacl_file")" && pwd)
fi

# _flashacl_prepend VARIABLE FOLDER: puts FOLDER first, once.
_flashacl_prepend() {
  eval "_flashacl_old=\${$1:-}"
  case ":$_flashacl_old:" in
    *":$2:"*) ;;
    *) eval "export $1=\"\$2\${_flashacl_old:+:\$_flashacl_old}\"" ;;
  esac
  unset _flashacl_old
}

# _flashacl_follow VARIABLE FOLDER OLD: sets what older build files read, unless
# the user has pointed it at something else than OLD, what went before.
_flashacl_follow() {
  eval "_flashacl_old=\${$1:-}"
  case $_flashacl_old in
    ''|"$3") eval "export $1=\"\$2\"" ;;
  esac
  unset _flashacl_old
}

if [ -f "$_flashacl_prefix/lib64/libascendcl.so" ]; then
  _flashacl_was=${ASCEND_HOME_PATH:-}
  _flashacl_follow ASCEND_CUSTOM_PATH "$_flashacl_prefix" "$_flashacl_was"
  _flashacl_follow DDK_PATH "$_flashacl_prefix" "$_flashacl_was"
  _flashacl_follow NPU_HOST_LIB "$_flashacl_prefix/runtime/lib64/stub" \
    "$_flashacl_was/runtime/lib64/stub"
  unset _flashacl_was
  export ASCEND_HOME_PATH="$_flashacl_prefix"
  export ASCEND_TOOLKIT_HOME="$_flashacl_prefix"
  export ASCEND_AICPU_PATH="$_flashacl_prefix"
  export ASCEND_OPP_PATH="$_flashacl_prefix/opp"
  _flashacl_prepend LD_LIBRARY_PATH "$_flashacl_prefix/lib64"
  _flashacl_prepend PATH "$_flashacl_prefix/bin"
  if [ -d "$_flashacl_prefix/python/site-packages" ]; then
    _flashacl_prepend PYTHONPATH "$_flashacl_prefix/python/site-packages"
  fi
  _flashacl_status=0
else
  echo "set_env.sh: cannot tell its own folder; source it by its path" >&2
  _flashacl_status=1
fi

unset _flashacl_file _flashacl_prefix
unset -f _flashacl_prepend _flashacl_follow
# The last command's status is that of sourcing.
if [ "$_flashacl_status" = 0 ]; then
  unset _flashacl_status
else
  unset _flashacl_status
  false
fi
