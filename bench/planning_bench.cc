// SPDX-License-Identifier: Apache-2.0
// What planning costs: phase 1 of the packed training forward, for batches of
// many sequences of unequal lengths. Target: under 50 us for 256 of them.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"

namespace {

constexpr int64_t kHeads = 32, kKeyHeads = 8, kDim = 128;

// A tensor of phase 1, which reads no elements: one byte stands for all.
aclTensor* TensorOf(const std::vector<int64_t>& dims, aclDataType type) {
  static uint8_t memory[64];
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t n = dims.size() - 1; n > 0; --n) {
    strides[n - 1] = strides[n] * dims[n];
  }
  return aclCreateTensor(dims.data(), dims.size(), type, strides.data(), 0,
                         ACL_FORMAT_ND, dims.data(), dims.size(), memory);
}

void PackedForward(benchmark::State& state) {
  std::vector<int64_t> ends;
  int64_t rows = 0;
  for (int64_t n = 0; n < state.range(0); ++n) {
    rows += 16 + n * 37 % 2033;  // 16 to 2048
    ends.push_back(rows);
  }
  aclTensor* const query = TensorOf({rows, kHeads, kDim}, ACL_BF16);
  aclTensor* const key = TensorOf({rows, kKeyHeads, kDim}, ACL_BF16);
  aclTensor* const value = TensorOf({rows, kKeyHeads, kDim}, ACL_BF16);
  aclTensor* const mask = TensorOf({2048, 2048}, ACL_BOOL);
  aclTensor* const row_max = TensorOf({rows, kHeads, 8}, ACL_FLOAT);
  aclTensor* const row_sum = TensorOf({rows, kHeads, 8}, ACL_FLOAT);
  aclTensor* const out = TensorOf({rows, kHeads, kDim}, ACL_BF16);
  aclIntArray* const lengths = aclCreateIntArray(ends.data(), ends.size());
  char layout[] = "TND";
  for (auto _ : state) {
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus status = aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
        query, key, value, nullptr, nullptr, nullptr, mask, nullptr, lengths,
        lengths, 1 / std::sqrt(double{kDim}), 1.0, INT32_MAX, INT32_MAX, kHeads,
        layout, 0, 3, row_max, row_sum, nullptr, out, &bytes, &executor);
    if (status != 0) {
      const char* const message = aclGetRecentErrMsg();
      state.SkipWithError(message == nullptr ? "phase 1 failed" : message);
      break;
    }
    benchmark::DoNotOptimize(bytes);
    aclDestroyAclOpExecutor(executor);
  }
  for (const aclTensor* tensor :
       {query, key, value, mask, row_max, row_sum, out}) {
    aclDestroyTensor(tensor);
  }
  aclDestroyIntArray(lengths);
}
BENCHMARK(PackedForward)
    ->Arg(1)
    ->Arg(16)
    ->Arg(256)
    ->Arg(1024)
    ->Unit(benchmark::kMicrosecond)
    ->Repetitions(5)
    ->ReportAggregatesOnly();

}  // namespace
