// SPDX-License-Identifier: Apache-2.0
// Sentences for people who ask why a problem went elsewhere.
#include "cpu/support.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "cpu/element_format.h"
#include "problem/slot.h"

namespace flashacl::cpu {
namespace {

Status Computes(const AttentionProblem& problem, Direction direction) {
  if (problem.direction == direction) return {};
  return Unsupported("computes the {} direction only",
                     direction == Direction::kForward ? "forward" : "backward");
}

// Scratch memory holds whole rows, so it must end somewhere: CANN's rows have
// 768 channels at most, and the reference takes any.
Status FitsScratch(const AttentionProblem& problem) {
  constexpr int64_t kMaxChannels = 4096;
  if (problem.score_dim() <= kMaxChannels && problem.v_dim <= kMaxChannels) {
    return {};
  }
  return Unsupported("{} + {} query and {} value channels are more than {}",
                     problem.qk_dim, problem.rope_dim, problem.v_dim,
                     kMaxChannels);
}

// Rows of a prefix are read as the others are. Blocks of channels are as far
// apart as a tensor has rows, so a prefix has its own distance; nobody asks for
// both, as of CANN's keys only those in pages lie in blocks.
Status PrefixIsAlike(const AttentionProblem& problem) {
  for (const auto& [prefix, own] : {std::pair{Slot::kKeyPrefix, Slot::kKey},
                                    {Slot::kValuePrefix, Slot::kValue}}) {
    if (!problem.has(prefix)) continue;
    for (const TensorSpec& one : KvTensors(problem, own)) {
      if (ElementFormat(one) == ElementFormat(problem[prefix])) continue;
      return Unsupported("{}: channels do not lie as those of the {}",
                         Name(prefix), Name(own));
    }
  }
  return {};
}

}  // namespace

std::span<const TensorSpec> KvTensors(const AttentionProblem& problem,
                                      Slot slot) {
  if (problem.kv.rows != KvSource::Rows::kList) return {&problem[slot], 1};
  return slot == Slot::kKey ? problem.kv.key_list : problem.kv.value_list;
}

Status SupportsTiles(const AttentionProblem& problem, Direction direction) {
  FLASHACL_RETURN_IF_ERROR(Computes(problem, direction));
  if (problem.kv.gathers()) {
    return Unsupported("keys listed for every row are not for tiles");
  }
  FLASHACL_RETURN_IF_ERROR(PrefixIsAlike(problem));
  return FitsScratch(problem);
}

Status SupportsLists(const AttentionProblem& problem, Direction direction) {
  FLASHACL_RETURN_IF_ERROR(Computes(problem, direction));
  if (!problem.kv.gathers()) {
    return Unsupported("computes with keys that are listed for every row only");
  }
  for (const Slot slot :
       {Slot::kMask, Slot::kBias, Slot::kKeep, Slot::kWeightScale, Slot::kLse,
        Slot::kKeyRowScale, Slot::kValueRowScale, Slot::kKeyPrefix,
        Slot::kGradSink}) {
    if (!problem.has(slot)) continue;
    return Unsupported("{}: not together with listed keys", Name(slot));
  }
  for (const Slot slot : {Slot::kKey, Slot::kKeyRope, Slot::kValue}) {
    if (problem[slot].channel_block == 0) continue;
    return Unsupported("{}: channels in blocks of listed keys", Name(slot));
  }
  return FitsScratch(problem);
}

namespace {

bool RoundsTo16Bits(const AttentionProblem& problem) {
  for (const Slot slot :
       {Slot::kOut, Slot::kGradQuery, Slot::kGradQueryRope, Slot::kGradKey,
        Slot::kGradKeyRope, Slot::kGradValue}) {
    if (problem.has(slot) && SizeOf(problem[slot].dtype) != 2) return false;
  }
  return true;
}

}  // namespace

// Rows of bf16 in multiples of half a matrix: as pairs they fill half of their
// memory, so that a matrix may read past them. Rows of fp16 in whole matrices:
// two terms fill all of it. Probs of two terms are as good as floats once
// outputs are rounded to 16 bits.
int MatrixTerms(const AttentionProblem& problem) {
  const DType dtype = problem[Slot::kQuery].dtype;
  if (dtype != DType::kBf16 && dtype != DType::kF16) return 0;
  const int64_t unit = dtype == DType::kBf16 ? 16 : 32;
  const auto fill = [&](std::span<const TensorSpec> tensors, int64_t channels) {
    return channels % unit == 0 &&
           std::all_of(tensors.begin(), tensors.end(),
                       [&](const TensorSpec& one) {
                         return one.channel_block == 0 && one.dtype == dtype &&
                                one.strides[3] == 1;
                       });
  };
  const auto one = [&](Slot slot, int64_t channels) {
    return !problem.has(slot) || fill({&problem[slot], 1}, channels);
  };
  const auto has_none = [&](std::initializer_list<Slot> slots) {
    return std::none_of(slots.begin(), slots.end(),
                        [&](Slot slot) { return problem.has(slot); });
  };
  const int64_t qk_dim = problem.qk_dim, v_dim = problem.v_dim;
  const bool fills = qk_dim > 0 && v_dim > 0 && v_dim % unit == 0 &&
                     has_none({Slot::kWeightScale, Slot::kKeyScale,
                               Slot::kValueScale, Slot::kKeyRowScale,
                               Slot::kValueRowScale, Slot::kQueryRowScale}) &&
                     one(Slot::kQuery, qk_dim) &&
                     one(Slot::kQueryRope, problem.rope_dim) &&
                     one(Slot::kKeyRope, problem.rope_dim) &&
                     fill(KvTensors(problem, Slot::kKey), qk_dim) &&
                     (problem.kv.value_is_key ||
                      fill(KvTensors(problem, Slot::kValue), v_dim)) &&
                     one(Slot::kGradOut, v_dim) &&
                     (problem.score.bf16_probs || RoundsTo16Bits(problem));
  const bool forward = problem.direction == Direction::kForward;
  if (!fills || (!forward && dtype != DType::kBf16)) return 0;
  return dtype == DType::kBf16 ? 1 : 2;
}

}  // namespace flashacl::cpu
