// SPDX-License-Identifier: Apache-2.0
// What forward and backward of training are told alike, in CANN's names, read
// once and passed to whoever turns a part of it into the house's words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "acl/arguments.h"
#include "acl/executor.h"
#include "aclnn/acl_meta.h"
#include "ops/canonical.h"
#include "ops/entry.h"
#include "ops/training_lengths.h"
#include "problem/band.h"

namespace flashacl::ops {

enum class Sequences : uint8_t {
  kPacked,  // one after the other on one axis
  kDense,   // all of one length, each in its own part of a tensor
};

// One array for queries, one for keys; null for what was not passed.
struct ArrayPair {
  constexpr ArrayPair(const aclIntArray* of_queries, const aclIntArray* of_keys)
      : queries(of_queries), keys(of_keys) {}

  const aclIntArray* queries;
  const aclIntArray* keys;
};
inline constexpr ArrayPair kNoArrays(nullptr, nullptr);

// Everything but tensors, in the order of every version's parameters, with what
// holds where a version does not say.
struct TrainingArgs {
  static constexpr int64_t kPseTypeUnlessSaid = 1;
  static constexpr bool kOnlyKnownLayouts = true;

  Sequences sequences;
  const aclIntArray* prefix;
  ArrayPair lengths;  // actualSeqQLen, actualSeqKvLen
  ArrayPair starts;   // qStartIdx, kvStartIdx
  double scale_value;
  double keep_prob;
  int64_t pre_tokens;
  int64_t next_tokens;
  int64_t head_num;
  const char* input_layout;
  int64_t inner_precise;  // 1: high performance
  int64_t sparse_mode;
  int64_t pse_type = kPseTypeUnlessSaid;
  const char* softmax_layout = nullptr;     // softmaxOutLayout, softmaxInLayout
  bool only_known_softmax_layouts = false;  // refuses others: one version

  bool dense() const { return sequences == Sequences::kDense; }
  bool AllowsBf16Probs(const AttentionProblem& problem) const {
    return inner_precise == 1 && problem[Slot::kQuery].dtype == DType::kBf16;
  }
};

// How the operator at hand spells what both have.
struct TrainingNames {
  std::string_view pse;
  std::string_view keep_prob;
  std::string_view pre_tokens;
  std::string_view next_tokens;
  std::string_view sparse_mode;
  std::string_view pse_type;
};

// An operator's words and the rows of its table that both directions have; -1
// for what there is no gradient of.
struct TrainingTable {
  TrainingNames names;
  bool backward = false;
  int query, query_rope;
  int key, key_rope;
  int pse, drop_mask, atten_mask;
  int query_rope_gradient = -1;
  int key_rope_gradient = -1;
};

// preTokens or nextTokens as a distance; beyond any sequence is open.
constexpr int64_t Tokens(int64_t tokens) {
  return std::clamp(tokens, -Band::kOpen, Band::kOpen);
}

struct Training {
  const TrainingNames* names = nullptr;
  bool backward = false;
  const Layout* layout = &kTnd;  // kTnd: sequences are packed, else all alike
  int64_t head_num = 0;
  Batch batch = {};

  const acl::Tensor* pse = nullptr;         // null: none, as the next two
  const acl::Tensor* drop_mask = nullptr;   // ...
  const acl::Tensor* atten_mask = nullptr;  // without it sparse_mode is nothing
  double keep_prob = 1;
  int64_t pse_type = 1;
  int64_t q_start_idx = 0;
  int64_t kv_start_idx = 0;
  int64_t sparse_mode = 0;
  int64_t pre_tokens = 0;   // within Band::kOpen, so that sums do not overflow
  int64_t next_tokens = 0;  // the same
  std::vector<int64_t> prefix = {};

  bool packed() const { return layout == &kTnd; }
};

// What a call says in numbers and in optional tensors; no arrays yet.
Training NumbersOf(const acl::Arguments& arguments, const TrainingTable& table,
                   const Layout& layout, const TrainingArgs& a);

// Adds prefixes and start positions. kContradiction if a position is out of
// reach.
Status ReadArrays(const TrainingArgs& a, Training& training);

// Binds the rows that were passed to the slots that the problem has.
void BindPlaces(const acl::Arguments& arguments, std::span<const Place> places,
                acl::Lowered& lowered);

}  // namespace flashacl::ops
