#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program of C++11 checks a result with flashacl/check.h, and links no other
# library of the prefix.
# labels: prefix
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >program.cc <<'END'
#include <flashacl/check.h>

#include <cstdio>

int main() {
  const float query[] = {1, 2}, value[] = {3, 4}, other[] = {3, 5};
  const std::vector<int64_t> dims = {1, 1, 2};
  for (const float *out : {value, other}) {
    const flashacl::CheckReport report = flashacl::Check(
        "fwd f32 h=1 d=2 q=1 k=1",
        {{"q", "f32", dims, query}, {"k", "f32", dims, query},
         {"v", "f32", dims, value}, {"out", "f32", dims, out}});
    std::puts(report.right() ? "right" : "wrong");
  }
}
END
"${CXX:-g++}" -std=c++11 -Wall -Werror program.cc -o program \
  "-I$FLASHACL_PREFIX/include" "-L$FLASHACL_PREFIX/lib64" -lflashacl_check \
  "-Wl,-rpath,$FLASHACL_PREFIX/lib64"
[ "$(./program)" = 'right
wrong' ]
! ldd ./program | grep -q libascendcl
# It shows its function and nothing else.
[ "$(nm -D --defined-only "$FLASHACL_PREFIX/lib64/libflashacl_check.so" |
  awk '$2 == "T" { print $3 }')" = flashaclCheck ]
