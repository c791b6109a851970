// SPDX-License-Identifier: Apache-2.0
// Attention to a choice of rows, rounded as one asks: the fp64 answer, what a
// plain computation in a type makes of it, and what mistakes make of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/backend.h"
#include "verify/answer/tensor_set.h"
#include "verify/answer/units.h"

namespace flashacl {

// How an answer is computed. 16-bit types round a number once it is there;
// kNone rounds nothing.
struct Recipe {
  bool single = false;           // products and sums in fp32, not fp64
  DType scores = DType::kNone;   // before softmax
  DType softmax = DType::kNone;  // exponentials, and every sum of them
  DType probs = DType::kNone;    // where they meet values, and their gradients
                                 // where they meet keys and queries
  bool bytes = false;            // of 8-bit queries: probs times kWeightScale
                                 // become 8-bit integers
  // Mistakes of gradients.
  bool without_delta = false;       // sum_j p_ij dp_ij is not subtracted
  bool scale_once_less = false;     // dq and dk lack the scale
  int64_t only_head_of_group = -1;  // that dk and dv have; -1: all of them
  // Rows' maximum, sum and output come from these tensors.
  const TensorSet* stats = nullptr;
};

// In fp32, with probs in the type of the query, or with 8 bits as its own type
// asks: twice its error is allowed.
Recipe PlainRecipe(const AttentionProblem& problem);

// Rows of one result of one head: of kGradKey and kGradValue a kv head and
// columns. Of kRowMax, kRowSum and kLse it has one channel, of which tensors
// may have copies. An 8-bit kOut is in steps of it, before it is rounded to
// whole ones. Of kGradBias channels are columns, kGradSink and slopes have one
// of row 0, and what all sequences, heads, rows or columns share is of number
// 0.
struct Part {
  Slot slot = Slot::kOut;
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t width = 0;
  std::vector<int64_t> rows;
  std::vector<double> values;  // [row, channel]
  // How large what was summed is, by row: the root of the sum of squares. An
  // implementation's roundings are shares of it.
  std::vector<double> magnitudes;

  std::span<const double> row(size_t n) const {
    return std::span(values).subspan(n * static_cast<size_t>(width),
                                     static_cast<size_t>(width));
  }
};

// kUnsupported for what has no answer of this kind: lengths that only the
// device knows.
Status CheckAnswerable(const AttentionProblem& problem);

// Gradients of a bias or of sinks, which are sums of those of scores.
constexpr bool IsOfScores(Slot slot) {
  return slot == Slot::kGradBias || slot == Slot::kGradSink;
}

// Of the results that the problem has in its direction: the output and what
// softmax leaves of rows, or the gradients of queries, keys and values with
// their ropes, and of bias and sinks if the units are all that add to them.
// Reads inputs only; backward the output, row maxima and row sums of the
// forward direction where they are bound, and computes them where they are not.
// Units are computed on `workers`; parts come in their order, those of bias and
// sinks after all others.
std::vector<Part> ComputeParts(const TensorSet& tensors,
                               std::span<const Unit> units,
                               const Recipe& recipe, Workers& workers);

}  // namespace flashacl
