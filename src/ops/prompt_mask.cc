// SPDX-License-Identifier: Apache-2.0
// Sparse modes as rules, masks and biases as grids.
#include "ops/prompt_mask.h"

#include <algorithm>

#include "ops/prompt_lengths.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;

enum Mode : int64_t {
  kDefault,
  kAllMask,
  kLeftUpCausal,
  kRightDownCausal,
  kBand
};

// [S1, S2] behind leading axes of 1; the first of them may be the sequences.
Result<TensorSpec> MaskGrid(const Prompt& prompt) {
  const Tensor& mask = prompt[Prompt::kMask];
  const auto [rows, columns] = ExtentsOf(prompt);
  const int64_t sequences = prompt.count();
  bool fits = mask.rank >= 2 && mask.rank <= 4;
  if (fits) {
    fits =
        mask.dims[mask.rank - 2] >= rows && mask.dims[mask.rank - 1] >= columns;
    fits = fits &&
           (mask.rank == 2 || mask.dims[0] == 1 || mask.dims[0] == sequences);
    fits = fits && (mask.rank < 4 || mask.dims[1] == 1);
  }
  if (!fits) {
    return Contradiction(
        "attenMask: shape {}, expected [{}, {}] or more behind axes of 1, the "
        "first of which may be {}",
        ShapeText(mask), rows, columns, sequences);
  }
  const int last = static_cast<int>(mask.rank) - 1;
  return Strided(mask, {mask.rank == 2 ? kOne : 0, kOne, last - 1, last},
                 {sequences, prompt.args.numHeads, 1, 1});
}

// [2048, 2048] behind axes of 1: modes 2 to 4.
Status CheckCompressed(const Prompt& prompt) {
  constexpr int64_t kSide = 2048;
  const Tensor& mask = prompt[Prompt::kMask];
  bool fits = mask.rank >= 2 && mask.rank <= 4;
  for (size_t axis = 0; fits && axis < mask.rank; ++axis) {
    fits = mask.dims[axis] == (axis + 2 < mask.rank ? 1 : kSide);
  }
  if (fits) return {};
  return Contradiction(
      "attenMask: shape {}, expected [2048, 2048] with sparseMode {}",
      ShapeText(mask), prompt.args.sparseMode);
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
Status CheckBand(const Prompt& prompt) {
  const int64_t pre = Bounded(prompt.args.preTokens);
  const int64_t next = Bounded(prompt.args.nextTokens);
  if ((pre < 0 && next < 0) || -next > pre) {
    return Contradiction("preTokens: {} and nextTokens {} let nothing be seen",
                         prompt.args.preTokens, prompt.args.nextTokens);
  }
  const bool top_left = prompt.args.sparseMode == kDefault;
  // Packed sequences may lose all they have, but no more than that.
  const int64_t spared = prompt.packed() && !top_left ? 1 : 0;
  for (const Sequence& sequence : prompt.sequences) {
    if (sequence.rows() == 0 || sequence.columns() == 0) continue;
    const int64_t of_next = top_left ? sequence.rows() : sequence.columns();
    const int64_t of_pre = top_left ? sequence.columns() : sequence.rows();
    if (next < 0 && -next >= of_next + spared) {
      return Contradiction("nextTokens: {} leaves nothing of {} {}",
                           prompt.args.nextTokens, of_next,
                           top_left ? "rows" : "keys");
    }
    if (pre < 0 && -pre >= of_pre + spared) {
      return Contradiction("preTokens: {} leaves nothing of {} {}",
                           prompt.args.preTokens, of_pre,
                           top_left ? "keys" : "rows");
    }
  }
  return {};
}

// Packed sequences must not have more queries than keys in mode 3.
Status CheckCausal(const Prompt& prompt) {
  if (!prompt.packed()) return {};
  for (size_t b = 0; b < prompt.sequences.size(); ++b) {
    const Sequence& sequence = prompt.sequences[b];
    if (sequence.rows() <= sequence.columns()) continue;
    return Contradiction(
        "actualSeqLengths: sequence {} has {} queries for {} keys, expected no "
        "more with sparseMode 3 in layout {}",
        b, sequence.rows(), sequence.columns(), prompt.layout.name);
  }
  return {};
}

// Whether the mode's rule may leave a row of the sequence without keys.
bool MayLeaveRows(const Prompt& prompt, const Sequence& sequence) {
  if (sequence.rows() == 0) return false;
  const int64_t more = sequence.rows() - sequence.columns();
  const int64_t pre = Bounded(prompt.args.preTokens);
  const int64_t next = Bounded(prompt.args.nextTokens);
  switch (prompt.args.sparseMode) {
    case kDefault:
      return prompt.has(Prompt::kMask) && (more > pre || next < 0);
    case kRightDownCausal:
      return more > 0;
    case kBand:
      return more > pre || more > next;
    default:
      return false;
  }
}

// A row without keys is a byte of 0, whatever the offset says 0 is.
Status CheckEightBitRows(const Prompt& prompt) {
  if (prompt[Prompt::kOut].dtype() != DType::kI8) return {};
  const PromptArgs& args = prompt.args;
  if (args.sparseMode == kBand && (args.preTokens < 0 || args.nextTokens < 0)) {
    return Contradiction(
        "preTokens: {} and nextTokens {}, expected none below 0 with INT8 "
        "attentionOut and sparseMode 4",
        args.preTokens, args.nextTokens);
  }
  if (!prompt.has(Prompt::kQuantOffset2)) return {};
  for (size_t b = 0; b < prompt.sequences.size(); ++b) {
    if (!MayLeaveRows(prompt, prompt.sequences[b])) continue;
    return Contradiction(
        "quantOffset2: given, but rows of sequence {} see no key with "
        "sparseMode {}",
        b, args.sparseMode);
  }
  return {};
}

MaskRule RuleOf(const PromptArgs& args) {
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

Status CheckMode(const Prompt& prompt) {
  const int64_t mode = prompt.args.sparseMode;
  if (mode < kDefault || mode > kBand) {
    return Contradiction("sparseMode: {}, expected 0 to 4", mode);
  }
  const bool keyless = prompt.key.dims[1] == 0;  // its mask is empty, so absent
  if (mode != kDefault && !prompt.has(Prompt::kMask) && !keyless) {
    return Contradiction("attenMask: absent, but needed with sparseMode {}",
                         mode);
  }
  if (prompt.has(Prompt::kMask) &&
      prompt[Prompt::kMask].dtype() == DType::kF16) {
    return Contradiction(
        "attenMask: data type FLOAT16, expected BOOL, INT8 or UINT8");
  }
  return {};
}

}  // namespace

Result<PromptMask> ReadMask(const Prompt& prompt) {
  FLASHACL_RETURN_IF_ERROR(CheckMode(prompt));
  PromptMask mask;
  const int64_t mode = prompt.args.sparseMode;
  if (!prompt.has(Prompt::kMask)) return mask;
  mask.compressed = mode >= kLeftUpCausal;
  if (mask.compressed) {
    FLASHACL_RETURN_IF_ERROR(CheckCompressed(prompt));
  } else {
    Result<TensorSpec> grid = MaskGrid(prompt);
    if (!grid.ok()) return grid.status();
    mask.grid = *grid;
  }
  if (mode == kDefault || mode == kBand) {
    FLASHACL_RETURN_IF_ERROR(CheckBand(prompt));
  }
  if (mode == kRightDownCausal) FLASHACL_RETURN_IF_ERROR(CheckCausal(prompt));
  FLASHACL_RETURN_IF_ERROR(CheckEightBitRows(prompt));
  if (mode != kAllMask) mask.rules.rules = {RuleOf(prompt.args)};
  return mask;
}

Result<TensorSpec> PseGrid(const Prompt& prompt) {
  const Tensor& pse = prompt[Prompt::kPse];
  const auto [rows, columns] = ExtentsOf(prompt);
  const int64_t sequences = prompt.count();
  if (pse.rank != 4 || (pse.dims[0] != 1 && pse.dims[0] != sequences) ||
      pse.dims[1] != prompt.args.numHeads || pse.dims[2] < rows ||
      pse.dims[3] < columns) {
    return Contradiction("pseShift: shape {}, expected [{} or 1, {}, {}, {}]",
                         ShapeText(pse), sequences, prompt.args.numHeads, rows,
                         columns);
  }
  return Strided(pse, {0, 1, 2, 3}, {sequences, 1, 1, 1});
}

}  // namespace flashacl::ops
