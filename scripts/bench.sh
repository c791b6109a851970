#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD: runs every benchmark program of a build, one after another.
set -euo pipefail
shopt -s nullglob
programs=("$1"/bench/*_bench)
if [ "${#programs[@]}" -eq 0 ]; then
  echo "bench: no benchmark programs in $1/bench" >&2
  exit 1
fi
for program in "${programs[@]}"; do
  echo "== $(basename "$program")"
  "$program"
done
