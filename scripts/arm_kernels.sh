#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# arm_kernels.sh: cross-builds the tests of the CPU kernels' accuracy, fences
# and special values, and of products of bytes and fp16, for 64-bit ARM, nothing
# else, and runs them under qemu-user: on a processor that has NEON alone, and
# on one with the instructions of bf16, fp16 and bytes, by NEON and by SVE of 256
# bits. To fit into CI, accuracy is measured on three of the kinds of numbers on
# the first, on one on the second, where NEON's fences and special values are not
# tested again; `make aarch64` takes all, and other widths.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/aarch64
scripts/arm_libraries.sh
scripts/build.sh aarch64 test_kernels -DFLASHACL_SVE=256

logs=$folder/kernels
rm -rf "$logs"
mkdir -p "$logs"
export FLASHACL_TEST_PERCENT=20
libraries=build/arm-libraries/usr/lib/aarch64-linux-gnu

# run NAME CPU FILTER: the tests that the filter takes, a shard for each of two
# cores; shows the log of a shard that fails.
run() {
  local name=$1 cpu=$2 filter=$3 shard children=() failed=
  for shard in 0 1; do
    QEMU_CPU=$cpu GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$shard \
      qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$libraries" \
      "$folder/tests/test_kernels" --gtest_filter="$filter" \
      >"$logs/$name.$shard" 2>&1 &
    children+=($!)
  done
  for shard in 0 1; do
    wait "${children[$shard]}" || failed+=" $shard"
  done
  for shard in $failed; do
    cat "$logs/$name.$shard" >&2
  done
  local passed
  passed=$(cat "$logs/$name".[01] | grep -c '^\[       OK \]' || true)
  echo "aarch64 kernels on $cpu: $passed tests passed${failed:+, others failed}"
  # A filter that takes nothing, or a program that cannot start, is no success.
  [ -z "$failed" ] && [ "$passed" -gt 0 ]
}

dear='*_tiny_scale:*_large_scale:*_negative_scale:*_values'
dear+=':*_few_keys:*_causal:*_one_key'
run neon cortex-a72 "-$dear"
dear+=':*_outliers:*_equal_scores:*Fenced*_NEON:*/Special.*_NEON'
run sve max,sve-max-vq=2 "-$dear"
