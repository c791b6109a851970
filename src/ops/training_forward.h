// SPDX-License-Identifier: Apache-2.0
// Attention forward for training, in all versions: packed sequences and dense
// layouts differ in a word, versions in what they lack. The operators' files
// name their arguments and call Plan.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "acl/arguments.h"
#include "acl/executor.h"
#include "aclnn/acl_meta.h"

namespace flashacl::ops::forward {

// The rows of every version's table, in an order that is each version's.
enum Row {
  kQuery,
  kQueryRope,
  kKey,
  kKeyRope,
  kValue,
  kRealShift,
  kDropMask,
  kPaddingMask,
  kAttenMask,
  kSink,
  kSoftmaxMax,
  kSoftmaxSum,
  kSoftmaxOut,
  kAttentionOut,
  kRows
};

using Table = std::array<acl::Argument, kRows>;

inline constexpr acl::DTypeSet kMaskTypes =
    acl::Bit(DType::kBool) | acl::Bit(DType::kU8);

// As shapes are for packed sequences.
inline constexpr Table kTable{{
    {"query", acl::Need::kRequired, acl::kFloats},      // [T, N, D]
    {"queryRope", acl::Need::kOptional, acl::kFloats},  // [T, N, Dr]
    {"key", acl::Need::kRequired, acl::kFloats},        // [Tkv, Nkv, D]
    {"keyRope", acl::Need::kOptional, acl::kFloats},    // [Tkv, Nkv, Dr]
    {"value", acl::Need::kRequired, acl::kFloats},      // [Tkv, Nkv, Dv]
    {"realShiftOptional", acl::Need::kOptional, acl::kFloats},
    {"dropMaskOptional", acl::Need::kOptional, acl::Bit(DType::kU8)},
    {"paddingMaskOptional", acl::Need::kIgnored},
    {"attenMaskOptional", acl::Need::kOptional, kMaskTypes},
    {"sinkOptional", acl::Need::kOptional, acl::kF32Only},  // [N]
    {"softmaxMaxOut", acl::Need::kRequired, acl::kF32Only, true},
    {"softmaxSumOut", acl::Need::kRequired, acl::kF32Only, true},
    {"softmaxOutOut", acl::Need::kIgnored, acl::kAnyType, true},
    {"attentionOutOut", acl::Need::kRequired, acl::kFloats, true},
}};

// What a version has that lacks these.
constexpr Table TableWithout(std::initializer_list<Row> absent) {
  Table table = kTable;
  for (const Row row : absent) table[row].need = acl::Need::kAbsent;
  return table;
}

// The tensors of one call; null for what its version lacks.
struct Tensors {
  const aclTensor* query;
  const aclTensor* query_rope = nullptr;
  const aclTensor* key;
  const aclTensor* key_rope = nullptr;
  const aclTensor* value;
  const aclTensor* real_shift;
  const aclTensor* drop_mask;
  const aclTensor* padding_mask;
  const aclTensor* atten_mask;
  const aclTensor* sink = nullptr;
  const aclTensor* softmax_max;
  const aclTensor* softmax_sum;
  const aclTensor* softmax_out;
  const aclTensor* attention_out;
};

// Everything else, with what holds where a version does not say.
struct Args {
  bool dense = false;
  const aclIntArray* prefix;
  const aclIntArray* actual_seq_q_len = nullptr;
  const aclIntArray* actual_seq_kv_len = nullptr;
  const aclIntArray* q_start_idx = nullptr;
  const aclIntArray* kv_start_idx = nullptr;
  double scale_value;
  double keep_prob;
  int64_t pre_tokens;
  int64_t next_tokens;
  int64_t head_num;
  const char* input_layout;
  int64_t sparse_mode;
  int64_t pse_type = 1;
  const char* softmax_out_layout = nullptr;
};

// Phase 1 of any version.
aclnnStatus Plan(const acl::Operator& op, const Tensors& tensors, const Args& a,
                 acl::PhaseOne answer) noexcept;

// The same of packed sequences, with a workspace that is large enough for any
// lengths.
aclnnStatus PlanMost(const acl::Operator& op, const Tensors& tensors,
                     const Args& a, acl::PhaseOne answer) noexcept;

}  // namespace flashacl::ops::forward
