// SPDX-License-Identifier: Apache-2.0
// One attention computation, whoever asked for it: what is asked, without
// addresses and without a word on how.
#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "problem/kv_source.h"
#include "problem/lengths.h"
#include "problem/mask.h"
#include "problem/score.h"
#include "problem/slot.h"
#include "problem/tensor_spec.h"

namespace flashacl {

enum class Direction : uint8_t { kForward, kBackward };

// A value: equal problems have equal plans, and nothing in it can go stale.
// Query head h shares kv head h / (heads / kv_heads). Scores are dot products
// over qk_dim + rope_dim channels; rope is a second block of channels with
// tensors of its own. A sink is a key whose value is zero.
//
// A row that sees no key: output 0, gradients 0. Its row max and row sum are
// -FLT_MAX and FLT_MAX; with a sink they are the sink and 1; where the sequence
// has no keys at all, or a top-k list names none and there is no sink, they are
// 0 and 0. A row whose scores are all -inf counts as one that sees no key; one
// with a NaN or +inf score is NaN. Rows of outputs that belong to no sequence
// are 0.
//
// The log-sum-exp of a row is row max + ln(row sum); of a row that sees no key,
// sink or not, and of one that belongs to no sequence, it is +infinity.
//
// An i8 query goes with i8 keys and values, and is one of two kinds. With
// kQueryRowScale its numbers are scale * x, of every row and head, as those of
// keys and values are by their own scales; its rope is of a type of floats.
//
// With kWeightScale it asks for products of integers throughout: kKeyScale
// brings q.k and kValueScale brings p.v back to numbers, and the weights
// between are rounded to i8, where out is still divided by the sum of what they
// were before:
//   out = sum_j clamp(rint(p_j * weight scale)) v_j / sum_j p_j
//
// Backward takes kRowMax and kRowSum as they are, without renormalising:
//   p = exp(score - max) / sum, 0 where unseen and where sum is 0.
struct AttentionProblem {
  Direction direction = Direction::kForward;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t qk_dim = 0;
  int64_t rope_dim = 0;  // 0: no rope
  int64_t v_dim = 0;
  Lengths lengths;
  KvSource kv;
  Mask mask;
  Score score;
  std::array<TensorSpec, kSlots> tensors;

  const TensorSpec& operator[](Slot slot) const {
    return tensors[static_cast<size_t>(slot)];
  }
  TensorSpec& operator[](Slot slot) {
    return tensors[static_cast<size_t>(slot)];
  }
  bool has(Slot slot) const { return (*this)[slot].present(); }
  int64_t group() const { return heads / kv_heads; }
  int64_t score_dim() const { return qk_dim + rope_dim; }

  bool operator==(const AttentionProblem&) const = default;
};

// Whether Score::half_probs means something.
inline bool MayHaveHalfProbs(const AttentionProblem& problem) {
  const DType query = problem[Slot::kQuery].dtype;
  const bool scaled =
      problem.has(Slot::kKeyScale) || problem.has(Slot::kKeyRowScale);
  return query == DType::kBf16 || (query == DType::kF16 && scaled);
}

// Whether it lets probs be rounded to bf16.
inline bool RoundsProbsToBf16(const AttentionProblem& problem) {
  return problem.score.half_probs &&
         problem[Slot::kQuery].dtype == DType::kBf16;
}

// What kBias or kGradBias has an element for: scores, or heads of sequences
// where it is slopes.
TensorSpec BiasSpec(const AttentionProblem& problem, Slot slot);

// From the first to after the last element of a row max or row sum in kBlocks:
// after the blocks of the sequences is room for the rows of kOut that no
// sequence has; they are 0.
int64_t RowBlockElements(const AttentionProblem& problem, Slot slot);

// What every problem must satisfy, whoever states it: the tensors its
// direction needs are there, extents agree with heads, dims and lengths, every
// sequence lies inside its tensors. A violation is kInvalidArgument and names
// the slot.
Status CheckProblem(const AttentionProblem& problem);

}  // namespace flashacl
