#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program on the front page, and one that waits in every way there is, get
# no reports from ThreadSanitizer, which sees nothing of how the installed
# libraries are compiled.
# labels: prefix
set -euo pipefail
# A library that is instrumented itself is another matter.
[ -z "${FLASHACL_SANITIZE:-}" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
awk '$0 == "```cpp" {inside = 1; next} inside && $0 == "```" {exit} inside' \
  "$FLASHACL_SOURCE/README.md" >attend.cpp
cp "$FLASHACL_SOURCE/tests/install/waits.cc" waits.cpp
. "$FLASHACL_PREFIX/set_env.sh"
# Address layouts that the runtime of some compilers does not know.
layout=()
if setarch -R true 2>/dev/null; then layout=(setarch -R); fi
failed=0
for program in attend waits; do
  "$CXX" -std=c++17 -g -O1 -fsanitize=thread "$program.cpp" -o "$program" \
    -I"$FLASHACL_PREFIX/include" -L"$FLASHACL_PREFIX/lib64" -lopapi \
    -lascendcl -pthread
  for run in 1 2 3; do
    if ! TSAN_OPTIONS=exitcode=66 "${layout[@]}" "./$program" >out 2>&1; then
      echo "tsan: $program, run $run:" >&2
      head -60 out >&2
      failed=1
      break
    fi
  done
done
exit "$failed"
