// SPDX-License-Identifier: Apache-2.0
// Sentences for people who ask why a problem went elsewhere.
#include "cpu/support.h"

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

}  // namespace flashacl::cpu
