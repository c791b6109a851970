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

bool AreIntegers(std::span<const TensorSpec> keys) {
  return !keys.empty() && IsQuantised(keys[0].dtype);
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

// Whether rows lie as matrices take them: in multiples of `unit` channels, side
// by side, or in blocks of so many.
struct MatrixRows {
  DType dtype;
  int64_t unit;
  bool in_blocks = false;

  bool Are(std::span<const TensorSpec> tensors, int64_t channels) const {
    return channels % unit == 0 &&
           std::all_of(
               tensors.begin(), tensors.end(), [&](const TensorSpec& one) {
                 const int64_t block = one.channel_block * NumbersOf(one.dtype);
                 const bool lies = in_blocks ? block % unit == 0 : block == 0;
                 return lies && one.dtype == dtype && one.strides[3] == 1;
               });
  }
  bool Are(const AttentionProblem& problem, Slot slot, int64_t channels) const {
    return !problem.has(slot) || Are({&problem[slot], 1}, channels);
  }
};

bool HasAny(const AttentionProblem& problem,
            std::initializer_list<Slot> slots) {
  return std::any_of(slots.begin(), slots.end(),
                     [&](Slot slot) { return problem.has(slot); });
}

// Keys and values of 8 or 4 bits in whole matrices, as words of numbers 16
// channels apart fill them, whose scales can wait. Probs that are rounded to 8
// bits are one term, whatever outputs are.
bool AreIntegersForMatrices(const AttentionProblem& problem) {
  const DType bytes = KvTensors(problem, Slot::kKey)[0].dtype;
  const MatrixRows rows{bytes, 32, /*in_blocks=*/true};
  const MatrixRows query{problem[Slot::kQuery].dtype, 32};
  const MatrixRows rope{DType::kBf16, 16}, key_rope{DType::kBf16, 16, true};
  const bool rounds = problem.has(Slot::kWeightScale) ||
                      RoundsProbsToBf16(problem) || RoundsTo16Bits(problem);
  return rounds && problem.direction == Direction::kForward &&
         !problem.kv.gathers() &&
         !HasAny(problem, {Slot::kKeyOffset, Slot::kValueOffset,
                           Slot::kKeyRowOffset, Slot::kValueRowOffset}) &&
         query.Are(problem, Slot::kQuery, problem.qk_dim) &&
         rope.Are(problem, Slot::kQueryRope, problem.rope_dim) &&
         key_rope.Are(problem, Slot::kKeyRope, problem.rope_dim) &&
         rows.Are(KvTensors(problem, Slot::kKey), problem.qk_dim) &&
         (problem.kv.value_is_key
              ? problem.v_dim % rows.unit == 0
              : rows.Are(KvTensors(problem, Slot::kValue), problem.v_dim));
}

// Rows of bf16 in multiples of half a matrix: as pairs they fill half of their
// memory, so that a matrix may read past them. Rows of fp16 in whole matrices:
// two terms fill all of it. Probs of two terms are as good as floats once
// outputs are rounded to 16 bits.
int HalvesForMatrices(const AttentionProblem& problem) {
  const DType dtype = problem[Slot::kQuery].dtype;
  const MatrixRows rows{dtype, dtype == DType::kBf16 ? 16 : 32};
  const bool fills =
      problem.v_dim % rows.unit == 0 &&
      !HasAny(problem, {Slot::kWeightScale, Slot::kKeyScale, Slot::kValueScale,
                        Slot::kKeyRowScale, Slot::kValueRowScale,
                        Slot::kQueryRowScale}) &&
      rows.Are(problem, Slot::kQuery, problem.qk_dim) &&
      rows.Are(problem, Slot::kQueryRope, problem.rope_dim) &&
      rows.Are(problem, Slot::kKeyRope, problem.rope_dim) &&
      rows.Are(KvTensors(problem, Slot::kKey), problem.qk_dim) &&
      (problem.kv.value_is_key ||
       rows.Are(KvTensors(problem, Slot::kValue), problem.v_dim)) &&
      rows.Are(problem, Slot::kGradOut, problem.v_dim) &&
      (RoundsProbsToBf16(problem) || RoundsTo16Bits(problem));
  if (!fills) return 0;
  return dtype == DType::kBf16 ? 1 : 2;
}

}  // namespace

int MatrixTerms(const AttentionProblem& problem) {
  const DType query = problem[Slot::kQuery].dtype;
  if (problem.qk_dim == 0 || problem.v_dim == 0) return 0;
  const bool halves = query == DType::kBf16 || query == DType::kF16;
  return halves ? HalvesForMatrices(problem) : 0;
}

int TileMatrixTerms(const AttentionProblem& problem) {
  const DType query = problem[Slot::kQuery].dtype;
  if (!AreIntegers(KvTensors(problem, Slot::kKey))) return MatrixTerms(problem);
  const bool fits =
      problem.qk_dim > 0 && problem.v_dim > 0 &&
      (query == DType::kBf16 || query == DType::kF16 || query == DType::kI8);
  return fits && AreIntegersForMatrices(problem) ? 1 : 0;
}

bool HasMatrixCode(const DeviceInfo& device) {
  const auto& sets = device.instruction_sets;
  return device.vector_target == "AVX3" &&
         std::find(sets.begin(), sets.end(), "amx_bf16") != sets.end();
}

bool QueriesTakeKeyScales(const AttentionProblem& problem) {
  return problem.has(Slot::kKeyScale) &&
         problem[Slot::kKeyScale].strides[1] != 0;
}

}  // namespace flashacl::cpu
