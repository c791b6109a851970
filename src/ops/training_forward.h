// SPDX-License-Identifier: Apache-2.0
// Attention forward for training, in all versions: packed sequences and dense
// layouts differ in a word, versions in what they lack.
#pragma once

#include <array>

#include "acl/arguments.h"
#include "ops/entry.h"
#include "ops/training.h"

namespace flashacl::ops::forward {

// The rows of the table, in the order of every version's parameters.
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

// Phase 1 of any version.
aclnnStatus PrepareForward(const acl::Operator& op, Tensors tensors,
                           const TrainingArgs& a,
                           acl::PhaseOne answer) noexcept;

// The same of packed sequences, with a workspace that is large enough for any
// lengths.
aclnnStatus PrepareForwardForMaxLengths(const acl::Operator& op,
                                        Tensors tensors, const TrainingArgs& a,
                                        acl::PhaseOne answer) noexcept;

}  // namespace flashacl::ops::forward
