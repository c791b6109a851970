// SPDX-License-Identifier: Apache-2.0
// Sparse modes, masks and biases of fused inference. Columns of masks and
// biases count the shared prefix first.
#include <algorithm>
#include <string_view>

#include "ops/fused_infer.h"
#include "ops/inference_lengths.h"
#include "ops/inference_mask.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;
using Call = FusedInferCall;

enum Mode : int64_t {
  kDefault = 0,
  kAllMask = 1,
  kLeftUpCausal = 2,
  kRightDownCausal = 3,
  kBand = 4,
  kTree = 9,
};

// Tokens beyond are without limit.
int64_t Tokens(int64_t tokens) {
  constexpr int64_t kMost = 2147483647;
  if (tokens >= kMost) return Band::kOpen;
  return tokens <= -kMost ? -Band::kOpen : tokens;
}

// A compressed mask is square.
constexpr int64_t kSide = 2048;

// [2048, 2048] after axes of 1.
bool IsCompressed(const Tensor& mask) {
  if (mask.rank < 2 || mask.rank > 4) return false;
  for (size_t axis = 0; axis < mask.rank; ++axis) {
    if (mask.dims[axis] != (axis + 2 < mask.rank ? 1 : kSide)) return false;
  }
  return true;
}

ScoreExtents Extents(const Call& call) {
  // Nobody knows how long the longest packed sequence will be.
  if (call.packed() && call.fused.any_lengths) return {};
  ScoreExtents extents = ExtentsOf(call);
  // Nor how long a prefix that was given with its room.
  const bool any_prefix = call.fused.any_lengths && call.prefix > 0;
  extents.columns = any_prefix ? 0 : call.mask_columns();
  return extents;
}

// [rows, columns] after axes of 1, the first of which may be the sequences. Of
// rank 2 and one row per sequence the rows are the sequences.
Result<TensorSpec> FullGrid(const Call& call) {
  const Tensor& mask = call[Call::kMask];
  const auto [rows, columns] = Extents(call);
  const int64_t sequences = call.count();
  const bool by_sequence =
      mask.rank == 2 && !call.packed() && call.query.dims[1] == 1;
  bool fits =
      mask.rank >= 2 && mask.rank <= 4 && mask.dims[mask.rank - 1] >= columns;
  if (fits && by_sequence) {
    fits = mask.dims[0] == sequences;
  } else if (fits) {
    fits = mask.dims[mask.rank - 2] >= rows &&
           (mask.rank == 2 || mask.dims[0] == 1 || mask.dims[0] == sequences) &&
           (mask.rank < 4 || mask.dims[1] == 1);
  }
  if (!fits) {
    return Contradiction(
        "attenMask: shape {}, expected {}", ShapeText(mask),
        MaskShapes(by_sequence ? sequences : rows, rows, columns, sequences));
  }
  const int last = static_cast<int>(mask.rank) - 1;
  const int64_t heads = call.args.numHeads;
  if (by_sequence) {
    return Strided(mask, {0, kOne, kOne, 1}, {sequences, heads, 1, 1});
  }
  return Strided(mask, {mask.rank == 2 ? kOne : 0, kOne, last - 1, last},
                 {sequences, heads, 1, 1});
}

// [sequence, rows, rows], or squares of packed sequences one after the other.
Result<TensorSpec> TreeGrid(const Call& call) {
  const Tensor& mask = call[Call::kMask];
  const int64_t heads = call.args.numHeads;
  if (!call.packed()) {
    const int64_t rows = call.query.dims[1];
    const int64_t dims[] = {call.count(), rows, rows};
    if (!std::ranges::equal(mask.shape(), dims)) {
      return Contradiction(
          "attenMask: shape {}, expected [{}, {}, {}] with sparseMode 9",
          ShapeText(mask), dims[0], rows, rows);
    }
    TensorSpec spec = Strided(mask, {0, kOne, 1, 2}, {1, heads, 1, 1});
    spec.placement = Placement::kTail;
    return spec;
  }
  int64_t squares = 0;
  for (const Sequence& sequence : call.sequences) {
    squares += sequence.rows() * sequence.rows();
  }
  if (mask.rank != 1 || (mask.dims[0] < squares && !call.fused.any_lengths)) {
    return Contradiction(
        "attenMask: shape {}, expected [{}] or more with sparseMode 9 in "
        "layout {}",
        ShapeText(mask), squares, call.layout.name);
  }
  TensorSpec spec{.dtype = mask.dtype(), .placement = Placement::kTailBlocks};
  spec.dims = {call.count(), 1, TensorSpec::kPerSequence,
               TensorSpec::kPerSequence};
  spec.strides[3] = mask.strides[0];
  return spec;
}

Status CheckTree(const Call& call) {
  const auto refuse = [&](std::string_view what) {
    return Contradiction("sparseMode: 9, with which there is no {}", what);
  };
  const bool named =
      call.Is(kBsh) || call.Is(kBsnd) || call.Is(kBnsd) || call.Is(kTnd);
  if (!named || call.out_layout.name != call.layout.name) {
    return refuse("layout but BSH, BSND, BNSD and TND");
  }
  if (call.left_padded || call.queries_left_padded) {
    return refuse("left padding");
  }
  if (call.has(Call::kPse)) return refuse("pseShift");
  if (call.has(Call::kKeyPrefix)) return refuse("shared prefix");
  if (call.int8_out()) return refuse("INT8 attentionOut");
  for (size_t b = 0; b < call.sequences.size(); ++b) {
    const Sequence& sequence = call.sequences[b];
    if (call.fused.any_lengths || sequence.columns() == 0 ||
        sequence.rows() <= sequence.columns()) {
      continue;
    }
    return Contradiction(
        "actualSeqLengths: sequence {} has {} queries for {} keys, expected no "
        "more with sparseMode 9",
        b, sequence.rows(), sequence.columns());
  }
  return {};
}

// With modes 0 and 4.
Status CheckTokens(const Call& call) {
  const int64_t pre = Tokens(call.args.preTokens);
  const int64_t next = Tokens(call.args.nextTokens);
  if ((pre >= 0 || next >= 0) && -next <= pre) return {};
  return Contradiction("preTokens: {} and nextTokens {} let nothing be seen",
                       call.args.preTokens, call.args.nextTokens);
}

// Whether the mode may leave a row of the sequence without keys.
bool MayLeaveRows(const Call& call, const Sequence& sequence) {
  if (sequence.rows() == 0) return false;
  const int64_t ahead = sequence.columns() - sequence.rows();
  const int64_t pre = Tokens(call.args.preTokens);
  const int64_t next = Tokens(call.args.nextTokens);
  switch (call.args.sparseMode) {
    case kDefault:
      return next < 0 || pre + ahead < 0;
    case kRightDownCausal:
      return ahead < 0;
    case kBand:
      return pre < 0 || next + ahead < 0;
    default:
      return false;
  }
}

// A row without keys is a byte of 0, whatever the offset says 0 is.
Status CheckEightBitRows(const Call& call) {
  if (!call.int8_out()) return {};
  const InferenceArgs& args = call.args;
  if (args.sparseMode == kBand && (args.preTokens < 0 || args.nextTokens < 0)) {
    return Contradiction(
        "preTokens: {} and nextTokens {}, expected none below 0 with INT8 "
        "attentionOut and sparseMode 4",
        args.preTokens, args.nextTokens);
  }
  if (!call.has(Call::kQuantOffset2) || call.fused.any_lengths) return {};
  for (size_t b = 0; b < call.sequences.size(); ++b) {
    if (!MayLeaveRows(call, call.sequences[b])) continue;
    return Contradiction(
        "quantOffset2: given, but rows of sequence {} see no key with "
        "sparseMode {}",
        b, args.sparseMode);
  }
  return {};
}

MaskRule RuleOf(const Call& call) {
  const int64_t pre = Tokens(call.args.preTokens);
  const int64_t next = Tokens(call.args.nextTokens);
  switch (call.args.sparseMode) {
    case kLeftUpCausal:
      return CausalTopLeft();
    case kRightDownCausal:
      return Causal();
    case kBand:
      return Window(pre, next);
    default:
      // Left padded sequences do not begin where tokens would count from.
      return call.left_padded || call.queries_left_padded
                 ? TopLeftBand(-Band::kOpen, Band::kOpen)
                 : TopLeftBand(-pre, next);
  }
}

// Grids have a row and a column per row of the tensors, so left padding shifts
// nothing.
void PlaceGrid(const Call& call, int row, Slot slot, acl::Lowered& lowered) {
  if (call.left_padded || call.queries_left_padded) {
    lowered.problem[slot].placement = Placement::kTensorScores;
  }
  lowered.Bind(call.arguments, row, slot);
}

Status LowerFull(const Call& call, acl::Lowered& lowered) {
  const Result<TensorSpec> grid = FullGrid(call);
  if (!grid.ok()) return grid.status();
  lowered.problem[Slot::kMask] = *grid;
  PlaceGrid(call, Call::kMask, Slot::kMask, lowered);
  return {};
}

Status LowerTree(const Call& call, acl::Lowered& lowered) {
  FLASHACL_RETURN_IF_ERROR(CheckTree(call));
  const Result<TensorSpec> grid = TreeGrid(call);
  if (!grid.ok()) return grid.status();
  lowered.problem[Slot::kMask] = *grid;
  lowered.Bind(call.arguments, Call::kMask, Slot::kMask);
  return {};
}

// One token per sequence: the mode says nothing, the mask all; but of a mask
// that a mode would not look at either there is none.
Status LowerDecode(const Call& call, acl::Lowered& lowered) {
  if (!call.has(Call::kMask)) return {};
  const Tensor& mask = call[Call::kMask];
  const int64_t mode = call.args.sparseMode;
  const bool causal = mode == kRightDownCausal || mode == kBand;
  if (causal && IsCompressed(mask) && call.count() != kSide) return {};
  const bool one = mask.rank == 3 && mask.dims[0] == call.count() &&
                   mask.dims[1] == 1 && mask.dims[2] == 1;
  if (mode == kTree && one) return LowerTree(call, lowered);
  return LowerFull(call, lowered);
}

Status LowerMode(const Call& call, acl::Lowered& lowered) {
  const int64_t mode = call.args.sparseMode;
  if ((mode < kDefault || mode > kBand) && mode != kTree) {
    return Contradiction("sparseMode: {}, expected 0 to 4 or 9", mode);
  }
  if (!call.has(Call::kMask)) {
    if (mode == kDefault) return {};
    return Contradiction("attenMask: absent, but needed with sparseMode {}",
                         mode);
  }
  if (mode == kTree) return LowerTree(call, lowered);
  if (mode == kDefault || mode == kBand) {
    FLASHACL_RETURN_IF_ERROR(CheckTokens(call));
  }
  FLASHACL_RETURN_IF_ERROR(CheckEightBitRows(call));
  if (mode != kAllMask) lowered.problem.mask.rules = {RuleOf(call)};
  if (mode <= kAllMask) return LowerFull(call, lowered);
  lowered.compressed_mask = Call::kMask;
  if (IsCompressed(call[Call::kMask])) return {};
  return Contradiction(
      "attenMask: shape {}, expected [2048, 2048] with sparseMode {}",
      ShapeText(call[Call::kMask]), mode);
}

// [1 or sequences, heads, rows, columns].
Status LowerBias(const Call& call, acl::Lowered& lowered) {
  if (!call.has(Call::kPse)) return {};
  const Tensor& pse = call[Call::kPse];
  if (call.roped()) return Contradiction("pseShift: given with rope");
  const auto [rows, columns] = Extents(call);
  const int64_t sequences = call.count();
  const bool one_row = !call.packed() && call.query.dims[1] == 1;
  if (pse.rank != 4 || (pse.dims[0] != 1 && pse.dims[0] != sequences) ||
      pse.dims[1] != call.args.numHeads || pse.dims[2] < rows ||
      (one_row && pse.dims[2] != 1) || pse.dims[3] < columns) {
    return Contradiction("pseShift: shape {}, expected [{} or 1, {}, {}, {}]",
                         ShapeText(pse), sequences, call.args.numHeads, rows,
                         columns);
  }
  lowered.problem.score.bias = Score::Bias::kAfterScale;
  lowered.problem[Slot::kBias] =
      Strided(pse, {0, 1, 2, 3}, {sequences, 1, 1, 1});
  PlaceGrid(call, Call::kPse, Slot::kBias, lowered);
  return {};
}

}  // namespace

int64_t FusedInferCall::mask_columns() const {
  return packed() ? LongestSequences(*this).columns
                  : prefix + cache.max_columns;
}

Status LowerFusedMask(const Call& call, acl::Lowered& lowered) {
  FLASHACL_RETURN_IF_ERROR(call.decode ? LowerDecode(call, lowered)
                                       : LowerMode(call, lowered));
  return LowerBias(call, lowered);
}

}  // namespace flashacl::ops
