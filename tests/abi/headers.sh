#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles every public header on its own, in every language it promises, C99,
# C11 and C++11 to C++20, with both compilers where they exist and with every
# warning an error.
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
    for compiler in gcc clang; do
      command -v "$compiler" > /dev/null || continue
      for standard in c99 c11; do
        echo "$compiler $standard c $header"
      done
    done
  done < <(find . -name '*.h' -printf '%P\n' | sort)
}

# A header is included, not compiled, because that is how callers meet it:
# twice. Nothing else is in the file, so that a header of macros alone, which C
# does not take for a program, fails.
compile() {
  printf '#include "%s"\n#include "%s"\n' "$4" "$4" |
    "$1" "-std=$2" -x "$3" -I. -Wall -Wextra -Werror -pedantic \
      -fsyntax-only - ||
    { echo "FAILED: $*" >&2; return 1; }
}
export -f compile

count=$(compilations | wc -l)
[ "$count" -gt 0 ] || { echo "no headers or no compiler" >&2; exit 1; }
compilations | xargs -P 2 -L 1 bash -c 'compile "$@"' compile
echo "$count compilations succeeded"
