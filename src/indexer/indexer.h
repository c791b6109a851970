// SPDX-License-Identifier: Apache-2.0
// The lightning indexer: which keys a query row will attend to, and how its
// parameters learn. For row t, heads h with weights w and keys j of one head
//   score(t, j) = sum_h w[t, h] max(0, q[t, h] . k[j])
// Products are chains over channels, scores over heads, in fp32 and in order;
// on matrix registers in an order of theirs. Either way a score depends on its
// row and its key alone. A NaN is kept, whatever it is multiplied with.
//
// Rows choose the keys of the highest scores. Their order is total: NaN before
// +infinity, -0 as 0, of equal scores the lower key. So whoever divides the
// work, keys or rows, among whomever, gets the same lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/bindings.h"
#include "plan/computation.h"
#include "problem/attention_problem.h"
#include "problem/tensor_spec.h"

namespace flashacl::indexer {

// Where the data of a run's tensors are, in their order.
using At = std::span<std::byte* const>;

// A tensor [sequence, row, head, channel]; one without heads has channels that
// are those of `heads`.
struct Operand {
  TensorSpec spec;
  size_t argument = 0;  // whose data it is, of those that a run is given
  int64_t offset_bytes = 0;

  std::byte* In(At at) const { return at[argument] + offset_bytes; }
};

// Where a slot of the problem is.
struct Place {
  Slot slot;
  size_t argument = 0;
  int64_t offset_bytes = 0;
};

// What both directions have.
struct Rows {
  // Lengths, and how heads, channels, query, keys and their pages are; of
  // attention it has nothing.
  AttentionProblem problem;
  std::vector<Place> places;
  Operand weights;      // [sequence, row, 1, head]
  bool causal = false;  // row i of q sees the first k - q + i + 1 keys of k
  int64_t workers = 1;  // that a run has at most

  int64_t heads() const { return problem.heads; }
  int64_t channels() const { return problem.qk_dim; }
};

// The highest scores first, then -1. Keys in pages that no table names are not
// scored.
struct Selection {
  Rows rows;
  Operand indices = {};  // INT32, [sequence, row, 1, K]
  std::optional<Operand> values =
      {};  // the scores, rounded once, then -infinity
};

std::shared_ptr<const Computation> MakeSelection(Selection selection);

// Of the listed keys' scores, given those of the scores. A list ends at its
// first negative entry; entries of keys that the row does not see count
// nothing. All elements of the results are written. With dot = q[t, h] . k[j]:
//   dw[t, h] += ds max(0, dot)
//   dq[t, h] += ds w[t, h] k[j]     where dot > 0
//   dk[j]    += ds w[t, h] q[t, h]  where dot > 0
struct Gradient {
  Rows rows;
  Operand indices = {};     // INT32, [sequence, row, 1, K]
  Operand grad_score = {};  // ds, of the same shape
  Operand grad_query = {}, grad_key = {};
  Operand grad_weights = {};
};

std::shared_ptr<const Computation> MakeGradient(Gradient gradient);

}  // namespace flashacl::indexer
