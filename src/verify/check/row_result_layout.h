// SPDX-License-Identifier: Apache-2.0
// Where the numbers of rows are in tensors of what softmax leaves: row maxima,
// row sums and log-sum-exps, as operators of CANN store them.
#pragma once

#include <string_view>

#include "base/status.h"
#include "problem/attention_problem.h"
#include "verify/check/user_tensors.h"

namespace flashacl {

struct RowResultLayout {
  std::string_view layout;  // of the queries, one of FindLayout's
  RowOrder order = RowOrder::kUnsaid;
};

// [sequence, head, row, copy], f32. With B sequences of S rows each, or T rows
// of all, and N heads, shapes are
//   [B, N, S, copies], [B, N, S], [B, 1, S, N], where queries have an axis of
//   sequences, and
//   [T, N, copies], [T, N], [N, T, copies], [N, T], [1, T, N] where they are
//   packed,
// with 8 copies of a maximum or a sum, or 1; of a log-sum-exp 1. One sequence
// may have either. Where several fit, the first of its layout's does. 8 copies
// of packed rows may also be in blocks: kContradiction where the order is
// unsaid and counts.
Result<TensorSpec> RowResultSpec(const AttentionProblem& problem, Slot slot,
                                 const UserTensor& tensor,
                                 const RowResultLayout& layout);

}  // namespace flashacl
