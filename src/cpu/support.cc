// SPDX-License-Identifier: Apache-2.0
// Sentences for people who ask why a problem went elsewhere.
#include "cpu/support.h"

#include <algorithm>
#include <vector>

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

// Rows of a prefix are read as the others are.
Status PrefixIsAlike(const AttentionProblem& problem) {
  const auto alike = [](const TensorSpec& prefix, const TensorSpec& own) {
    return ElementFormat(prefix) == ElementFormat(own);
  };
  const auto check = [&](Slot slot, Slot own,
                         const std::vector<TensorSpec>& list) -> Status {
    if (!problem.has(slot)) return {};
    const bool listed = problem.kv.rows == KvSource::Rows::kList;
    const bool same = listed ? std::all_of(list.begin(), list.end(),
                                           [&](const TensorSpec& one) {
                                             return alike(problem[slot], one);
                                           })
                             : alike(problem[slot], problem[own]);
    if (same) return {};
    return Unsupported("{}: channels do not lie as those of the {}", Name(slot),
                       Name(own));
  };
  FLASHACL_RETURN_IF_ERROR(
      check(Slot::kKeyPrefix, Slot::kKey, problem.kv.key_list));
  return check(Slot::kValuePrefix, Slot::kValue, problem.kv.value_list);
}

}  // namespace

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
