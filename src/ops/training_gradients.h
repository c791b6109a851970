// SPDX-License-Identifier: Apache-2.0
// The tensors of attention backward for training: which there are, and what
// they must agree in before anybody looks at lengths.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "acl/arguments.h"
#include "base/status.h"
#include "ops/training_rope.h"
#include "ops/training_rows.h"

namespace flashacl::ops::backward {

// The rows of every version's table, in an order that is each version's.
enum Row {
  kQuery,
  kQueryRope,
  kKey,
  kKeyRope,
  kValue,
  kDy,
  kPse,
  kDropMask,
  kPaddingMask,
  kAttenMask,
  kSoftmaxMax,
  kSoftmaxSum,
  kSoftmaxIn,
  kAttentionIn,
  kSink,
  kDq,
  kDqRope,
  kDk,
  kDkRope,
  kDv,
  kDpse,
  kDsink,
  kRows
};

using Table = std::array<acl::Argument, kRows>;

inline constexpr acl::DTypeSet kMaskTypes =
    acl::Bit(DType::kBool) | acl::Bit(DType::kU8);

// As shapes are for packed sequences.
inline constexpr Table kTable{{
    {"query", acl::Need::kRequired, acl::kFloats},      // [T, N, D]
    {"queryRope", acl::Need::kOptional, acl::kFloats},  // [T, N, Dr]
    {"keyIn", acl::Need::kRequired, acl::kFloats},      // [Tkv, Nkv, D]
    {"keyInRope", acl::Need::kOptional, acl::kFloats},  // [Tkv, Nkv, Dr]
    {"value", acl::Need::kRequired, acl::kFloats},      // [Tkv, Nkv, Dv]
    {"dy", acl::Need::kRequired, acl::kFloats},         // [T, N, Dv]
    {"pseShiftOptional", acl::Need::kOptional, acl::kFloats},
    {"dropMaskOptional", acl::Need::kOptional, acl::Bit(DType::kU8)},
    {"paddingMaskOptional", acl::Need::kIgnored},
    {"attenMaskOptional", acl::Need::kOptional, kMaskTypes},
    {"softmaxMaxOptional", acl::Need::kOptional, acl::kF32Only},  // [T, N, 8]
    {"softmaxSumOptional", acl::Need::kOptional, acl::kF32Only},
    {"softmaxInOptional", acl::Need::kIgnored},
    {"attentionInOptional", acl::Need::kRequired, acl::kFloats},  // [T, N, Dv]
    {"sinkInOptional", acl::Need::kOptional, acl::kF32Only},      // [N]
    {"dqOut", acl::Need::kRequired, acl::kFloats, true},
    {"dqRopeOut", acl::Need::kOptional, acl::kFloats, true},
    {"dkOut", acl::Need::kRequired, acl::kFloats, true},
    {"dkRopeOut", acl::Need::kOptional, acl::kFloats, true},
    {"dvOut", acl::Need::kRequired, acl::kFloats, true},
    {"dpseOut", acl::Need::kOptional, acl::kAnyType, true},
    {"dsinkOut", acl::Need::kOptional, acl::kF32Only, true},
}};

// What a version has that lacks these.
constexpr Table TableWithout(std::initializer_list<Row> absent) {
  Table table = kTable;
  for (const Row row : absent) table[row].need = acl::Need::kAbsent;
  return table;
}

inline constexpr TrainingNames kNames{
    .pse = "pseShiftOptional",
    .keep_prob = "keepProb",
    .pre_tokens = "preTokens",
    .next_tokens = "nextTokens",
    .sparse_mode = "sparseMode",
    .pse_type = "pseType",
};

inline constexpr RopeRows kRope{
    .query = kQuery,
    .query_rope = kQueryRope,
    .key = kKey,
    .key_rope = kKeyRope,
    .pse = kPse,
    .drop_mask = kDropMask,
    .atten_mask = kAttenMask,
    .query_rope_gradient = kDqRope,
    .key_rope_gradient = kDkRope,
};

bool NothingToWrite(const acl::Arguments& args);

// What decides what tensors must look like. The layout is that of packed
// sequences, or a dense one's name.
struct Scalars {
  bool dense = false;
  std::string_view layout = {};
  int64_t head_num = 0;
  double keep_prob = 1;
  int64_t sparse_mode = 0;
};

// Types, layout, ranks, shapes, head dims, sink and rope, in the documented
// order.
Result<TrainingRows> CheckTensors(const acl::Arguments& args,
                                  const Scalars& scalars);

}  // namespace flashacl::ops::backward
