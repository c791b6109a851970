// SPDX-License-Identifier: Apache-2.0
// Merging partial attention: rows that were attended to different keys become
// what attention to all of these keys gives. A part is known by its rows and a
// statistic of each row's scores s_j:
//   log-sum-exp     lse = ln sum_j exp(s_j)
//   max and sum     max = max_j s_j,  sum = sum_j exp(s_j - max)
// A part that saw no key weighs nothing, whatever its rows hold, so that it is
// the identity of merging. Weights and sums are fp32; results are rounded once.
// Rows are merged alone: the same bits for any number of workers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "plan/computation.h"

namespace flashacl::merge {

// Rows of a tensor: row r is `stride` elements after row r - 1, its channels
// `step` apart.
struct Rows {
  size_t argument = 0;  // whose data it is, of those that a run is given
  DType dtype = DType::kF32;
  int64_t offset = 0;
  int64_t stride = 0;
  int64_t step = 1;
};

// Any number of parts, by log-sum-exp. One of +-infinity saw no key. Of rows
// that no part saw the result is 0, and its log-sum-exp +infinity.
struct LseMerge {
  int64_t rows = 0;
  int64_t channels = 0;
  std::vector<Rows> lse;    // fp32, one number a row
  std::vector<Rows> parts;  // of one type
  Rows out;                 // may be a part
  std::optional<Rows> lse_out;
};

// Not of 0 rows.
std::shared_ptr<const Computation> MakeLseMerge(LseMerge merge);

// Rows by sequence of a batch, token and head.
struct HeadRows {
  size_t argument = 0;
  DType dtype = DType::kF32;
  int64_t offset = 0;
  int64_t sequence_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
  int64_t step = 1;
};

// An fp32 tensor of rank 4 or 3 whose last axis has eight equal numbers a row:
// the first is read, all are written.
struct Statistic {
  size_t argument = 0;
  int64_t offset = 0;
  std::array<int64_t, 4> strides{};  // the last is that of the eight
};
inline constexpr int64_t kCopies = 8;

// How rows lie in the first axes of a statistic.
enum class StatisticOrder : uint8_t {
  kBatch,   // [B, N, S, 8]
  kTokens,  // [T, N, 8]
  kBlocks,  // [T, N, 8] by shape, in truth an [N, S_b, 8] per sequence
};

// An INT64 tensor that a run reads: where sequences end, which begins with 0.
struct Ends {
  size_t argument = 0;
  int64_t count = 0;
  int64_t offset = 0;
  int64_t stride = 1;
};

// Two parts, by max and sum. One whose max is -FLT_MAX and sum FLT_MAX, or
// whose max is -infinity, saw no key; of rows that neither saw the result is 0,
// and these two. So it is where both sums are 0, but for max and sum.
struct MaxSumMerge {
  int64_t batch = 1;
  int64_t tokens = 0;  // of a sequence, or of all
  int64_t heads = 0;
  int64_t channels = 0;
  std::array<HeadRows, 2> parts;
  HeadRows out;  // may be a part
  std::array<Statistic, 2> max;
  std::array<Statistic, 2> sum;
  Statistic max_out;  // may be a part's
  Statistic sum_out;
  StatisticOrder order = StatisticOrder::kBatch;
  std::optional<Ends> ends;  // for kBlocks
};

std::shared_ptr<const Computation> MakeMaxSumMerge(MaxSumMerge merge);

}  // namespace flashacl::merge
