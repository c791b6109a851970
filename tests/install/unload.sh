#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program may unload the library in any state, with work under way too, and
# end by exit or _exit: soon, and with its own code.
# labels: prefix
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$CXX" -I"$FLASHACL_PREFIX/include" "$FLASHACL_SOURCE/tests/install/unload.cc" \
  -o "$work/unload" -ldl -pthread
export LD_LIBRARY_PATH=$FLASHACL_PREFIX/lib64
failed=0
for state in loaded busy finalized; do
  for end in "by exit" "at once"; do
    code=0
    timeout 20 "$work/unload" "$state" "$end" || code=$?
    [ "$code" = 0 ] || { echo "unload: $state, $end: code $code" >&2; failed=1; }
  done
done
exit "$failed"
