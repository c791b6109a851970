// SPDX-License-Identifier: Apache-2.0
// Attention backward for training, in all versions: which tensors there are,
// what they must agree in before anybody looks at lengths, and phase 1.
#pragma once

#include <array>

#include "acl/arguments.h"
#include "base/status.h"
#include "ops/entry.h"
#include "ops/training.h"
#include "ops/training_rows.h"

namespace flashacl::ops::backward {

// The rows of the table, in the order of every version's parameters.
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

bool NothingToWrite(const acl::Arguments& args);

// Types, layout, ranks, shapes, head dims, sink and rope, in the documented
// order.
Result<TrainingRows> CheckTensors(const acl::Arguments& args,
                                  const TrainingArgs& a);

// Phase 1 of any version.
aclnnStatus PrepareBackward(const acl::Operator& op, Tensors tensors,
                            const TrainingArgs& a,
                            acl::PhaseOne answer) noexcept;

// The same of packed sequences, with a workspace that is large enough for any
// lengths, for the version that lacks nothing. Refuses a drop mask, whose size
// depends on lengths.
aclnnStatus PrepareBackwardForMaxLengths(const acl::Operator& op,
                                         Tensors tensors, const TrainingArgs& a,
                                         acl::PhaseOne answer) noexcept;

}  // namespace flashacl::ops::backward
