// SPDX-License-Identifier: Apache-2.0
// Sparse modes as rules, masks and biases as grids.
#include "ops/inference_mask.h"

#include <algorithm>

#include "base/str.h"
#include "ops/inference_lengths.h"
#include "ops/token_advice.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;
using Call = InferenceCall;

enum Mode : int64_t {
  kDefault,
  kAllMask,
  kLeftUpCausal,
  kRightDownCausal,
  kBand
};

// [S1, S2] after leading axes of 1; the first of them may be the sequences.
Result<TensorSpec> MaskGrid(const InferenceCall& call) {
  const Tensor& mask = call[Call::kMask];
  const auto [rows, columns] = ExtentsOf(call);
  const int64_t sequences = call.count();
  bool fits = mask.rank >= 2 && mask.rank <= 4;
  if (fits) {
    fits =
        mask.dims[mask.rank - 2] >= rows && mask.dims[mask.rank - 1] >= columns;
    fits = fits &&
           (mask.rank == 2 || mask.dims[0] == 1 || mask.dims[0] == sequences);
    fits = fits && (mask.rank < 4 || mask.dims[1] == 1);
  }
  if (!fits) {
    return Contradiction("attenMask: shape {}, expected {}", ShapeText(mask),
                         MaskShapes(rows, rows, columns, sequences));
  }
  const int last = static_cast<int>(mask.rank) - 1;
  return Strided(mask, {mask.rank == 2 ? kOne : 0, kOne, last - 1, last},
                 {sequences, call.args.numHeads, 1, 1});
}

// [B, S], [B, 1, S] or [B, 1, 1, S]: a row per sequence of decode. Where keys
// are in pages or left padded, it has a column for each that there is room for.
Result<TensorSpec> RowGrid(const InferenceCall& call) {
  const Tensor& mask = call[Call::kMask];
  const bool all = call.paged() || call.left_padded;
  const int64_t columns =
      all ? call.cache.max_columns : LongestSequences(call).columns;
  bool fits = mask.rank >= 2 && mask.rank <= 4 &&
              mask.dims[0] == call.count() &&
              mask.dims[mask.rank - 1] >= columns;
  for (size_t axis = 1; fits && axis + 1 < mask.rank; ++axis) {
    fits = mask.dims[axis] == 1;
  }
  if (!fits) {
    return Contradiction(
        "attenMask: shape {}, expected [{}, {}] or more columns, perhaps with "
        "axes of 1 between",
        ShapeText(mask), call.count(), columns);
  }
  const int last = static_cast<int>(mask.rank) - 1;
  return Strided(mask, {0, kOne, kOne, last},
                 {call.count(), call.args.numHeads, 1, 1});
}

// [2048, 2048] after axes of 1: modes 2 to 4.
Status CheckCompressed(const InferenceCall& call) {
  constexpr int64_t kSide = 2048;
  const Tensor& mask = call[Call::kMask];
  bool fits = mask.rank >= 2 && mask.rank <= 4;
  for (size_t axis = 0; fits && axis < mask.rank; ++axis) {
    fits = mask.dims[axis] == (axis + 2 < mask.rank ? 1 : kSide);
  }
  if (fits) return {};
  return Contradiction(
      "attenMask: shape {}, expected [2048, 2048] with sparseMode {}",
      ShapeText(mask), call.args.sparseMode);
}

// Nobody can tell tokens this far apart from tokens without limit, and their
// sums do not overflow.
int64_t Bounded(int64_t tokens) {
  return std::clamp(tokens, -Band::kOpen, Band::kOpen);
}

// A band must not leave all rows of a sequence empty that has scores. It is
// measured from the top left corner, where nextTokens leaves rows and preTokens
// keys, or in mode 4 from the bottom right one, where it is the other way
// round.
Status CheckBand(const InferenceCall& call) {
  const int64_t pre = Bounded(call.args.preTokens);
  const int64_t next = Bounded(call.args.nextTokens);
  if ((pre < 0 && next < 0) || -next > pre) {
    return Contradiction("preTokens: {} and nextTokens {} let nothing be seen",
                         call.args.preTokens, call.args.nextTokens);
  }
  const bool top_left = call.args.sparseMode == kDefault;
  // Packed sequences may lose all they have, but no more than that.
  const int64_t spared = call.packed() && !top_left ? 1 : 0;
  for (const Sequence& sequence : call.sequences) {
    if (sequence.rows() == 0 || sequence.columns() == 0) continue;
    const int64_t of_next = top_left ? sequence.rows() : sequence.columns();
    const int64_t of_pre = top_left ? sequence.columns() : sequence.rows();
    if (next < 0 && -next >= of_next + spared) {
      return Contradiction("nextTokens: {} leaves nothing of {} {}",
                           call.args.nextTokens, of_next,
                           top_left ? "rows" : "keys");
    }
    if (pre < 0 && -pre >= of_pre + spared) {
      return Contradiction("preTokens: {} leaves nothing of {} {}",
                           call.args.preTokens, of_pre,
                           top_left ? "keys" : "rows");
    }
  }
  return {};
}

// Packed sequences must not have more queries than keys in mode 3.
Status CheckCausal(const InferenceCall& call) {
  if (!call.packed()) return {};
  for (size_t b = 0; b < call.sequences.size(); ++b) {
    const Sequence& sequence = call.sequences[b];
    if (sequence.rows() <= sequence.columns()) continue;
    return Contradiction(
        "actualSeqLengths: sequence {} has {} queries for {} keys, expected no "
        "more with sparseMode 3 in layout {}",
        b, sequence.rows(), sequence.columns(), call.layout.name);
  }
  return {};
}

// Whether the mode's rule may leave a row of the sequence without keys.
bool MayLeaveRows(const InferenceCall& call, const Sequence& sequence) {
  if (sequence.rows() == 0) return false;
  const int64_t more = sequence.rows() - sequence.columns();
  const int64_t pre = Bounded(call.args.preTokens);
  const int64_t next = Bounded(call.args.nextTokens);
  switch (call.args.sparseMode) {
    case kDefault:
      return call.has(Call::kMask) && (more > pre || next < 0);
    case kRightDownCausal:
      return more > 0;
    case kBand:
      return more > pre || more > next;
    default:
      return false;
  }
}

// A row without keys is a byte of 0, whatever the offset says 0 is.
Status CheckEightBitRows(const InferenceCall& call) {
  if (!call.int8_out()) return {};
  const InferenceArgs& args = call.args;
  if (args.sparseMode == kBand && (args.preTokens < 0 || args.nextTokens < 0)) {
    return Contradiction(
        "preTokens: {} and nextTokens {}, expected none below 0 with INT8 "
        "attentionOut and sparseMode 4",
        args.preTokens, args.nextTokens);
  }
  if (!call.has(Call::kQuantOffset2)) return {};
  for (size_t b = 0; b < call.sequences.size(); ++b) {
    if (!MayLeaveRows(call, call.sequences[b])) continue;
    return Contradiction(
        "quantOffset2: given, but rows of sequence {} see no key with "
        "sparseMode {}",
        b, args.sparseMode);
  }
  return {};
}

MaskRule RuleOf(const InferenceArgs& args) {
  switch (args.sparseMode) {
    case kLeftUpCausal:
      return CausalTopLeft();
    case kRightDownCausal:
      return Causal();
    case kBand:
      return Window(args.preTokens, args.nextTokens);
    default:
      return TopLeftBand(-Bounded(args.preTokens), args.nextTokens);
  }
}

Status CheckMode(const InferenceCall& call) {
  const int64_t mode = call.args.sparseMode;
  if (mode < kDefault || mode > kBand) {
    return Contradiction("sparseMode: {}, expected 0 to 4", mode);
  }
  const bool keyless =
      call.cache.max_columns == 0;  // its mask is empty, so absent
  if (mode != kDefault && !call.has(Call::kMask) && !keyless) {
    return Contradiction("attenMask: absent, but needed with sparseMode {}",
                         mode);
  }
  if (call.has(Call::kMask) && call[Call::kMask].dtype() == DType::kF16) {
    return Contradiction(
        "attenMask: data type FLOAT16, expected BOOL, INT8 or UINT8");
  }
  return {};
}

// [B or 1, N, S1, S2].
Result<TensorSpec> BiasGrid(const InferenceCall& call) {
  const Tensor& pse = call[Call::kPse];
  const auto [rows, columns] = ExtentsOf(call);
  const int64_t sequences = call.count();
  if (pse.rank != 4 || (pse.dims[0] != 1 && pse.dims[0] != sequences) ||
      pse.dims[1] != call.args.numHeads || pse.dims[2] < rows ||
      (call.decode && pse.dims[2] != 1) || pse.dims[3] < columns) {
    return Contradiction("pseShift: shape {}, expected [{} or 1, {}, {}, {}]",
                         ShapeText(pse), sequences, call.args.numHeads, rows,
                         columns);
  }
  return Strided(pse, {0, 1, 2, 3}, {sequences, 1, 1, 1});
}

// What a sparse mode makes of the mask, after its checks.
Status LowerMode(const InferenceCall& call, acl::Lowered& lowered) {
  FLASHACL_RETURN_IF_ERROR(CheckMode(call));
  const int64_t mode = call.args.sparseMode;
  const auto [rows, columns] = ExtentsOf(call);
  AdviseOnTokens({.pre_name = "preTokens",
                  .next_name = "nextTokens",
                  .pre = call.args.preTokens,
                  .next = call.args.nextTokens,
                  .sparse_mode = mode,
                  .has_mask = call.has(Call::kMask),
                  .longest = std::max(rows, columns)});
  if (!call.has(Call::kMask)) return {};
  if (mode >= kLeftUpCausal) {
    FLASHACL_RETURN_IF_ERROR(CheckCompressed(call));
    lowered.compressed_mask = Call::kMask;
  } else {
    const Result<TensorSpec> grid = MaskGrid(call);
    if (!grid.ok()) return grid.status();
    lowered.problem[Slot::kMask] = *grid;
  }
  if (mode == kDefault || mode == kBand) {
    FLASHACL_RETURN_IF_ERROR(CheckBand(call));
  }
  if (mode == kRightDownCausal) FLASHACL_RETURN_IF_ERROR(CheckCausal(call));
  FLASHACL_RETURN_IF_ERROR(CheckEightBitRows(call));
  if (mode != kAllMask) lowered.problem.mask.rules = {RuleOf(call.args)};
  return {};
}

Status LowerRow(const InferenceCall& call, acl::Lowered& lowered) {
  if (!call.has(Call::kMask)) return {};
  const Result<TensorSpec> grid = RowGrid(call);
  if (!grid.ok()) return grid.status();
  lowered.problem[Slot::kMask] = *grid;
  return {};
}

// Grids have a column per row of the cache, so left padding shifts nothing.
void PlaceGrid(const InferenceCall& call, int row, Slot slot,
               acl::Lowered& lowered) {
  if (!lowered.problem.has(slot)) return;
  if (call.left_padded) {
    lowered.problem[slot].placement = Placement::kTensorScores;
  }
  lowered.Bind(call.arguments, row, slot);
}

}  // namespace

std::string MaskShapes(int64_t first, int64_t rows, int64_t columns,
                       int64_t sequences) {
  const std::string one = sequences == 1 ? "1" : Str("1 or {}", sequences);
  return Str(
      "[{}, {}], [{}, {}, {}] or [{}, 1, {}, {}], or more in the last "
      "two axes",
      first, columns, one, rows, columns, one, rows, columns);
}

Status LowerMask(const InferenceCall& call, acl::Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  FLASHACL_RETURN_IF_ERROR(call.decode ? LowerRow(call, lowered)
                                       : LowerMode(call, lowered));
  PlaceGrid(call, Call::kMask, Slot::kMask, lowered);
  if (!call.has(Call::kPse)) return {};
  const Result<TensorSpec> grid = BiasGrid(call);
  if (!grid.ok()) return grid.status();
  problem.score.bias = Score::Bias::kAfterScale;
  problem[Slot::kBias] = *grid;
  PlaceGrid(call, Call::kPse, Slot::kBias, lowered);
  return {};
}

}  // namespace flashacl::ops
