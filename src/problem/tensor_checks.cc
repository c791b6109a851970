// SPDX-License-Identifier: Apache-2.0
// The laws of single tensors, with the messages that say which one breaks them.
#include "problem/tensor_checks.h"

#include <algorithm>

#include "base/str.h"

namespace flashacl {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 59;  // 2^62 bytes of the widest
constexpr std::string_view kAxisNames[] = {"first", "second", "third",
                                           "fourth"};

}  // namespace

Needs NeedsOf(const AttentionProblem& problem) {
  Needs needs{.sequences = problem.lengths.count()};
  for (const Sequence& sequence : problem.lengths.sequences) {
    needs.rows = std::max(needs.rows, sequence.rows());
    needs.columns = std::max(needs.columns, sequence.columns());
    needs.row_end = std::max(needs.row_end, sequence.queries.last);
    needs.key_end = std::max(needs.key_end, sequence.keys.last);
    needs.prefix = std::max(needs.prefix, sequence.prefix);
  }
  return needs;
}

// Extents and strides a tensor may have at all, whatever its slot.
Status Required(const AttentionProblem& problem, Slot slot, bool required) {
  if (problem.has(slot) || !required) return {};
  return NullArgument("{}: missing", Name(slot));
}

Status Forbidden(const AttentionProblem& problem, Slot slot, bool forbidden,
                 std::string_view why) {
  if (!problem.has(slot) || !forbidden) return {};
  return Contradiction("{}: given, but {}", Name(slot), why);
}

Status CheckSpec(Slot slot, const TensorSpec& spec) {
  if (IsBlocks(spec.placement)) return {};
  int64_t last = 0;
  for (size_t axis = 0; axis < 4; ++axis) {
    if (spec.dims[axis] < 0) {
      return Invalid("{}: {} extent is {}, expected at least 0", Name(slot),
                     kAxisNames[axis], spec.dims[axis]);
    }
    if (spec.strides[axis] < 0) {
      return Invalid("{}: {} stride is {}, expected at least 0", Name(slot),
                     kAxisNames[axis], spec.strides[axis]);
    }
    int64_t span;
    int64_t steps = std::max<int64_t>(spec.dims[axis] - 1, 0);
    if (axis == 3 && spec.channel_block > 0) {
      // The last block counts as whole.
      const int64_t blocks = steps / spec.channel_block;
      if (__builtin_mul_overflow(blocks, spec.block_stride, &span) ||
          __builtin_add_overflow(last, span, &last)) {
        last = kMaxElements;
      }
      steps = std::min(steps, spec.channel_block - 1);
    }
    if (__builtin_mul_overflow(steps, spec.strides[axis], &span) ||
        __builtin_add_overflow(last, span, &last) || last >= kMaxElements) {
      return Invalid("{}: extents and strides span more than 2^59 elements",
                     Name(slot));
    }
  }
  return {};
}

Status CheckBlocksOfChannels(Slot slot, const TensorSpec& spec, bool may) {
  if (spec.channel_block == 0 && spec.block_stride == 0) return {};
  if (!may) {
    return Contradiction(
        "{}: channels in blocks, expected keys or values of "
        "one tensor or of pages, and forward",
        Name(slot));
  }
  if (spec.channel_block < 1 || spec.block_stride < 0) {
    return Invalid(
        "{}: blocks of {} channels, {} elements apart, expected at "
        "least 1 and at least 0",
        Name(slot), spec.channel_block, spec.block_stride);
  }
  return {};
}

Status CheckDType(Slot slot, const TensorSpec& spec,
                  std::initializer_list<DType> accepted) {
  for (DType dtype : accepted) {
    if (spec.dtype == dtype) return {};
  }
  return Invalid("{}: dtype {} is not one this tensor may have", Name(slot),
                 Name(spec.dtype));
}

Status CheckFloat(Slot slot, const TensorSpec& spec) {
  return CheckDType(slot, spec, {DType::kF32, DType::kF16, DType::kBf16});
}

// An axis reaches far enough, or repeats one element.
Status Reaches(Slot slot, const TensorSpec& spec, size_t axis, int64_t needed) {
  const bool repeats = spec.strides[axis] == 0 && spec.dims[axis] >= 1;
  if (spec.dims[axis] >= needed || repeats) return {};
  return Invalid("{}: {} extent is {}, but {} are needed", Name(slot),
                 kAxisNames[axis], spec.dims[axis], needed);
}

Status Equals(Slot slot, const TensorSpec& spec, size_t axis,
              int64_t expected) {
  if (spec.dims[axis] == expected) return {};
  return Invalid("{}: {} extent is {}, expected {}", Name(slot),
                 kAxisNames[axis], spec.dims[axis], expected);
}

Status CheckStrided(Slot slot, const TensorSpec& spec) {
  if (spec.placement == Placement::kStrided) return {};
  return Invalid("{}: only scores and rows may be placed by sequence",
                 Name(slot));
}

// Two elements of an output must not share a place.
Status CheckApart(Slot slot, const TensorSpec& spec) {
  for (size_t axis = 1; axis < 4; ++axis) {
    if (spec.dims[axis] > 1 && spec.strides[axis] == 0) {
      return Invalid("{}: {} stride is 0, but results do not repeat",
                     Name(slot), kAxisNames[axis]);
    }
  }
  return {};
}

Status CheckRows(Slot slot, const TensorSpec& spec, const RowsOf& want) {
  FLASHACL_RETURN_IF_ERROR(CheckStrided(slot, spec));
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 0, want.sequences));
  if (spec.dims[1] < want.row_end) {
    return Invalid("{}: {} rows, but sequences end at row {}", Name(slot),
                   spec.dims[1], want.row_end);
  }
  FLASHACL_RETURN_IF_ERROR(Equals(slot, spec, 2, want.heads));
  if (spec.dtype != DType::kI4x8) return Equals(slot, spec, 3, want.dim);
  if (spec.channels() == want.dim) return {};
  return Invalid("{}: {} words of 8 channels, expected {} channels", Name(slot),
                 spec.dims[3], want.dim);
}

namespace {

Status NoRoom(Slot slot) {
  return Invalid("{}: more than 2^59 elements", Name(slot));
}

// The blocks hold `columns` elements per row, or as many as each sequence has.
Status CheckBlocks(const AttentionProblem& problem, Slot slot) {
  const TensorSpec& spec = problem[slot];
  if (spec.dims[1] != 1) {
    FLASHACL_RETURN_IF_ERROR(Equals(slot, spec, 1, problem.heads));
  }
  int64_t total = 0;
  for (const Sequence& sequence : problem.lengths.sequences) {
    const int64_t rows = spec.dims[2] == TensorSpec::kPerSequence
                             ? sequence.rows()
                             : spec.dims[2];
    const int64_t columns = spec.dims[3] != TensorSpec::kPerSequence
                                ? spec.dims[3]
                            : IsTail(spec.placement) ? sequence.rows()
                                                     : sequence.columns();
    int64_t elements;
    if (__builtin_mul_overflow(rows, columns, &elements) ||
        __builtin_mul_overflow(elements, spec.dims[1], &elements) ||
        __builtin_mul_overflow(elements, spec.block_step(), &elements) ||
        __builtin_add_overflow(total, elements, &total) ||
        total >= kMaxElements) {
      return NoRoom(slot);
    }
  }
  return {};
}

// Blocks as long as each sequence, or of a length that holds any.
Status BlockReaches(Slot slot, const TensorSpec& spec, size_t axis,
                    int64_t needed) {
  const bool one_row = axis == 2 && spec.dims[axis] == 1;
  if (spec.dims[axis] == TensorSpec::kPerSequence || one_row) return {};
  if (spec.dims[axis] >= needed) return {};
  return Invalid("{}: {} extent of a block is {}, but {} are needed",
                 Name(slot), kAxisNames[axis], spec.dims[axis], needed);
}

// The stored rows stand for all others along the diagonals. A diagonal that
// starts right of the stored ones is nowhere, so no row may see it.
Status CheckDiagonal(const AttentionProblem& problem, const Needs& needs,
                     Slot slot) {
  const TensorSpec& spec = problem[slot];
  const int64_t stored = spec.dims[2];
  const int64_t missing = spec.dims[3] - stored;
  if (stored < 1 || missing < 0) {
    return Invalid("{}: {} stored rows of {} columns, expected 1 to {} rows",
                   Name(slot), stored, spec.dims[3], spec.dims[3]);
  }
  if (spec.dims[3] < std::max(needs.rows, needs.columns)) {
    return Invalid("{}: a diagonal of {} for sequences of {} rows, {} columns",
                   Name(slot), spec.dims[3], needs.rows, needs.columns);
  }
  if (missing == 0) return {};
  for (int64_t b = 0; b < needs.sequences; ++b) {
    const Sequence& sequence =
        problem.lengths.sequences[static_cast<size_t>(b)];
    if (sequence.rows() == 0 || sequence.columns() == 0) continue;
    // The shorter a sequence turns out to be, the farther right its bottom
    // right corner is from its rows.
    const bool known = problem.lengths.known();
    const Band band =
        problem.mask.BandOf(b, known ? sequence.rows() : 1, sequence.columns());
    const int64_t ahead =
        std::min(std::max(band.upper, band.prefix - 1), sequence.columns() - 1);
    if (ahead >= stored) {
      return Contradiction(
          "{}: {} stored rows, but the mask lets sequence {} see {} columns "
          "ahead of its diagonal",
          Name(slot), stored, b, ahead);
    }
  }
  return {};
}

// A mask of the last keys: as many as there are rows.
Status CheckTail(const AttentionProblem& problem, const Needs& needs,
                 Slot slot) {
  const TensorSpec& spec = problem[slot];
  FLASHACL_RETURN_IF_ERROR(
      Forbidden(problem, slot, slot != Slot::kMask,
                "the last columns alone may have a mask, and nothing else"));
  FLASHACL_RETURN_IF_ERROR(
      Forbidden(problem, slot, problem.direction == Direction::kBackward,
                "backward takes masks of all columns only"));
  for (size_t b = 0; b < problem.lengths.sequences.size(); ++b) {
    const Sequence& sequence = problem.lengths.sequences[b];
    if (sequence.columns() == 0 || sequence.rows() <= sequence.columns()) {
      continue;
    }
    return Contradiction("{}: a tail of {} keys, but sequence {} has {}",
                         Name(slot), sequence.rows(), b, sequence.columns());
  }
  if (IsBlocks(spec.placement)) return CheckBlocks(problem, slot);
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 0, needs.sequences));
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 1, problem.heads));
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 2, needs.rows));
  return Reaches(slot, spec, 3, needs.rows);
}

}  // namespace

Status CheckScoreGrid(const AttentionProblem& problem, const Needs& needs,
                      Slot slot) {
  const TensorSpec& spec = problem[slot];
  if (IsTail(spec.placement)) return CheckTail(problem, needs, slot);
  if (spec.placement == Placement::kBlocks) {
    FLASHACL_RETURN_IF_ERROR(BlockReaches(slot, spec, 2, needs.rows));
    FLASHACL_RETURN_IF_ERROR(BlockReaches(slot, spec, 3, needs.columns));
    return CheckBlocks(problem, slot);
  }
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 0, needs.sequences));
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 1, problem.heads));
  switch (spec.placement) {
    case Placement::kDiagonal:
      return CheckDiagonal(problem, needs, slot);
    case Placement::kTensorScores:
      FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 2, needs.row_end));
      return Reaches(slot, spec, 3, needs.prefix + needs.key_end);
    case Placement::kTensorRows:
      FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 2, needs.row_end));
      return Reaches(slot, spec, 3, needs.columns);
    default:
      FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 2, needs.rows));
      return Reaches(slot, spec, 3, needs.columns);
  }
}

Status CheckRowGrid(const AttentionProblem& problem, const Needs& needs,
                    Slot slot) {
  const TensorSpec& spec = problem[slot];
  FLASHACL_RETURN_IF_ERROR(CheckDType(slot, spec, {DType::kF32}));
  if (spec.dims[3] < 1) {
    return Invalid("{}: {} lanes, expected at least 1", Name(slot),
                   spec.dims[3]);
  }
  switch (spec.placement) {
    case Placement::kBlocks:
      FLASHACL_RETURN_IF_ERROR(Equals(slot, spec, 1, problem.heads));
      FLASHACL_RETURN_IF_ERROR(Equals(slot, spec, 2, TensorSpec::kPerSequence));
      return CheckBlocks(problem, slot);
    case Placement::kTensorRows:
      FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 2, needs.row_end));
      break;
    case Placement::kStrided:
      FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 2, needs.rows));
      break;
    default:
      return Invalid("{}: has rows and lanes, no columns to be placed by",
                     Name(slot));
  }
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 0, needs.sequences));
  FLASHACL_RETURN_IF_ERROR(Reaches(slot, spec, 1, problem.heads));
  return CheckApart(slot, spec);
}

}  // namespace flashacl
