#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles every public header on its own, in every language it promises: C99
# and C++11 to C++20 for acl/ and securec.h, C++11 to C++20 for the others, with
# both compilers where they exist and with every warning an error.
#
# Usage: headers.sh INCLUDE_DIR
set -euo pipefail

cd "${1:?usage: headers.sh INCLUDE_DIR}"

# Prints one compilation per line: compiler, standard, language, header.
compilations() {
  local header compiler standard
  while read -r header; do
    for compiler in g++ clang++; do
      command -v "$compiler" > /dev/null || continue
      for standard in c++11 c++14 c++17 c++20; do
        echo "$compiler $standard c++ $header"
      done
    done
    case $header in aclnn*) continue ;; esac
    for compiler in gcc clang; do
      command -v "$compiler" > /dev/null || continue
      echo "$compiler c99 c $header"
    done
  done < <(find . -name '*.h' -printf '%P\n' | sort)
}

# A header is included, not compiled, because that is how callers meet it:
# twice, and in C with something behind it, since a file of macros alone is
# not C.
compile() {
  printf '#include "%s"\n#include "%s"\ntypedef int the_end;\n' "$4" "$4" |
    "$1" "-std=$2" -x "$3" -I. -Wall -Wextra -Werror -pedantic \
      -fsyntax-only - ||
    { echo "FAILED: $*" >&2; return 1; }
}
export -f compile

count=$(compilations | wc -l)
[ "$count" -gt 0 ] || { echo "no headers or no compiler" >&2; exit 1; }
compilations | xargs -P 2 -L 1 bash -c 'compile "$@"' compile
echo "$count compilations succeeded"
