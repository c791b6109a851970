#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET [cmake option]...: configures and builds one preset, says
# which, and shows a log only when it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

mkdir -p "build/$preset"
log=build/$preset/configure.log
echo "configure and build: preset $preset, in build/$preset"
if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build --preset "$preset"
