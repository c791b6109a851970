// SPDX-License-Identifier: Apache-2.0
#include "cpu/decode/few_rows.h"

#include <span>

#include "base/dtype.h"
#include "cpu/support.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

static_assert(2 * 32 - 1 <= kDecodeRows);

// Keys for which the tensors have room: of a sequence, or of all of a cache of
// pages. 0: nobody knows, of sequences that are packed, or have tensors of
// their own, without looking at others.
int64_t RoomForKeys(const AttentionProblem& problem) {
  const TensorSpec& key = problem[Slot::kKey];
  switch (problem.kv.rows) {
    case KvSource::Rows::kPaged:
      return key.dims[0] * key.dims[1];
    case KvSource::Rows::kList:
      return 0;
    case KvSource::Rows::kStrided:
      break;
  }
  return key.strides[0] == 0 ? 0 : key.dims[1];
}

// Whether tiles convert keys and values in less time than rows meet them.
bool TilesConvertFast(const AttentionProblem& problem) {
  const std::span<const TensorSpec> keys = KvTensors(problem, Slot::kKey);
  return !keys.empty() &&
         (keys[0].dtype == DType::kF16 || keys[0].dtype == DType::kBf16) &&
         problem.score_dim() + problem.v_dim < kChannelsOfTwoPanels;
}

}  // namespace

int64_t MostFewRows(const AttentionProblem& problem, const DeviceInfo& device) {
  const bool avx512 = device.vector_target == "AVX3";
  const bool known = avx512 || device.vector_target == "AVX2";
  if (!known || HasMatrixCode(device)) return kFewRows;
  const int64_t panel = avx512 ? 32 : 16;
  const int64_t room = RoomForKeys(problem);
  if (0 < room && room < kFewKeys) return panel - 1;
  if (avx512 && (room < kKeysOfTwoPanels || TilesConvertFast(problem))) {
    return kFewRows;
  }
  return 2 * panel - 1;
}

}  // namespace flashacl::cpu
