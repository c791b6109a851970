// SPDX-License-Identifier: Apache-2.0
// Sums by offset into the tensor, or one store per score.
#include "cpu/backward/bias_gradient.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/number.h"
#include "cpu/forward/forward_operands.h"

namespace flashacl::cpu {
namespace {

// Slopes have no axes behind the second.
TensorSpec SpecOf(const AttentionProblem& problem) {
  TensorSpec spec = problem[Slot::kGradBias];
  if (IsAlibi(problem.score.bias)) spec.dims[2] = spec.dims[3] = 1;
  return spec;
}

void WriteFloat(DType dtype, std::byte* at, float value) {
  switch (dtype) {
    case DType::kF32:
      return flashacl::Store(at, value);
    case DType::kF16:
      return flashacl::Store(at, F16FromF32(value));
    case DType::kBf16:
      return flashacl::Store(at, Bf16FromF32(value));
    default:
      return WriteNumber(dtype, at, double{value});
  }
}

// Whether two scores of the widest lengths there may be share an element.
bool IsShared(const AttentionProblem& problem) {
  const TensorSpec& spec = problem[Slot::kGradBias];
  if (!spec.present()) return false;
  if (IsAlibi(problem.score.bias)) return true;
  const auto& sequences = problem.lengths.sequences;
  const bool rows = std::any_of(sequences.begin(), sequences.end(),
                                [](const Sequence& s) { return s.rows() > 1; });
  switch (spec.placement) {
    case Placement::kBlocks:
      return (spec.dims[1] == 1 && problem.heads > 1) ||
             (spec.dims[2] == 1 && rows);
    case Placement::kStrided:
    case Placement::kTensorScores: {
      const bool apart = spec.placement == Placement::kTensorScores;
      return (!apart && spec.strides[0] == 0 && sequences.size() > 1) ||
             (spec.strides[1] == 0 && problem.heads > 1) ||
             (spec.strides[2] == 0 && (rows || sequences.size() > 1)) ||
             spec.strides[3] == 0;
    }
    default:
      return true;
  }
}

}  // namespace

int64_t BiasGradient::SumsOf(const AttentionProblem& problem) {
  if (!IsShared(problem)) return 0;
  return Grid(SpecOf(problem), problem.lengths.sequences).ElementsNeeded();
}

BiasGradient::BiasGradient(const AttentionProblem& problem,
                           const Bindings& bindings,
                           std::span<const Sequence> sequences,
                           std::span<double> sums)
    : problem_(problem),
      base_(bindings[Slot::kGradBias]),
      grid_(SpecOf(problem), sequences),
      sums_(sums),
      shared_(IsShared(problem)) {}

bool BiasGradient::SequencesAreApart() const {
  const TensorSpec& spec = grid_.spec();
  return spec.placement == Placement::kBlocks || spec.strides[0] != 0;
}

bool BiasGradient::HeadsAreApart() const {
  const TensorSpec& spec = grid_.spec();
  return spec.placement == Placement::kBlocks ? spec.dims[1] != 1
                                              : spec.strides[1] != 0;
}

int64_t BiasGradient::classes() const {
  return (SequencesAreApart() ? problem_.lengths.count() : 1) *
         (HeadsAreApart() ? problem_.kv_heads : 1);
}

int64_t BiasGradient::ClassOf(const Tile& cut) const {
  const int64_t of_head = HeadsAreApart() ? cut.kv_head : 0;
  if (!SequencesAreApart()) return of_head;
  return cut.sequence * (HeadsAreApart() ? problem_.kv_heads : 1) + of_head;
}

// Elements of scores that nobody sees are 0.
void BiasGradient::Clear() const {
  if (!wanted()) return;
  std::ranges::fill(sums_, 0.0);
  const TensorSpec& spec = grid_.spec();
  if (spec.placement != Placement::kBlocks) return ClearElements(spec, base_);
  // All there is room for, though sequences may be shorter in this run.
  const int64_t end = Grid(spec, problem_.lengths.sequences).ElementsNeeded();
  for (int64_t n = 0; n < end; n += spec.block_step()) {
    WriteFloat(spec.dtype, base_ + n * SizeOf(spec.dtype), 0);
  }
}

void BiasGradient::Store(Workers& workers) const {
  if (!shared_) return;
  const TensorSpec& spec = grid_.spec();
  const auto store = [&](int64_t offset) {
    WriteFloat(spec.dtype, base_ + offset * SizeOf(spec.dtype),
               static_cast<float>(sums_[static_cast<size_t>(offset)]));
  };
  if (spec.placement == Placement::kBlocks) {
    constexpr int64_t kPiece = 1 << 14;
    const auto end = static_cast<int64_t>(sums_.size());
    const int64_t step = spec.block_step();
    workers.ForEach(CeilDiv(end, kPiece * step), [&](int64_t piece) {
      const int64_t last = std::min(end, (piece + 1) * kPiece * step);
      for (int64_t n = piece * kPiece * step; n < last; n += step) store(n);
    });
    return;
  }
  std::array<int64_t, 4> count = spec.dims;
  for (size_t axis = 0; axis < 4; ++axis) {
    if (spec.strides[axis] == 0) {
      count[axis] = std::min<int64_t>(count[axis], 1);
    }
  }
  workers.ForEach(count[0] * count[1], [&](int64_t plane) {
    for (int64_t z = 0; z < count[2]; ++z) {
      for (int64_t d = 0; d < count[3]; ++d) {
        store(spec.At(plane / count[1], plane % count[1], z, d));
      }
    }
  });
}

double BiasGradient::AlibiDistance(int64_t sequence, int64_t i,
                                   int64_t j) const {
  const Score& score = problem_.score;
  const bool shifted = !score.starts_only_first || sequence == 0;
  const int64_t start = shifted ? score.key_start - score.query_start : 0;
  const double distance = std::fabs(static_cast<double>(j - i + start));
  return score.bias == Score::Bias::kAlibiSqrt ? std::sqrt(distance) : distance;
}

// Calls add(n, ds) for the keys of the step that the row may see. A gradient of
// 0 is also that of what is hidden, which may have no element.
template <typename AddOne>
void BiasGradient::ForEachScore(const Row& row, AddOne add) {
  for (int64_t n = row.seen.first; n < row.seen.last; ++n) {
    const float ds = row.grad_scores[n * row.step];
    if (ds != 0.0f) add(n, ds);
  }
}

void BiasGradient::AddRow(const Tile& cut, const Row& row,
                          int64_t first_column) const {
  const Score::Bias kind = problem_.score.bias;
  const TensorSpec& spec = grid_.spec();
  if (IsAlibi(kind)) {
    double sum = 0;
    ForEachScore(row, [&](int64_t n, float ds) {
      sum += double{ds} * AlibiDistance(cut.sequence, row.i, first_column + n);
    });
    sums_[static_cast<size_t>(spec.At(cut.sequence, row.head))] -= sum;
    return;
  }
  const GridPlane plane = grid_.Plane(cut.sequence, row.head);
  const float factor =
      kind == Score::Bias::kBeforeScale ? problem_.score.scale : 1.0f;
  if (!shared_) {
    std::byte* const base =
        base_ + plane.At(row.i, first_column) * SizeOf(spec.dtype);
    const int64_t bytes = plane.column_stride * SizeOf(spec.dtype);
    ForEachScore(row, [&](int64_t n, float ds) {
      WriteFloat(spec.dtype, base + n * bytes, factor * ds);
    });
  } else if (plane.missing_rows < 0) {
    double* const base = sums_.data() + plane.At(row.i, first_column);
    const int64_t stride = plane.column_stride;
    ForEachScore(row, [&](int64_t n, float ds) {
      base[n * stride] += double{factor * ds};
    });
  } else {
    ForEachScore(row, [&](int64_t n, float ds) {
      sums_[static_cast<size_t>(plane.At(row.i, first_column + n))] +=
          double{factor * ds};
    });
  }
}

void BiasGradient::Add(const Tile& cut, const BackwardTile& tile,
                       const KeyStep& step, Range block) const {
  const int64_t lanes = tile.shape->panel_rows;
  const int64_t panel_floats = tile.scratch.panel_keys * lanes;
  for (int64_t r = block.first; r < block.last; ++r) {
    const int64_t place = (r - block.first) / lanes;
    const QueryRow& query_row = tile.scores.scratch.query_rows[r];
    AddRow(cut,
           {.i = query_row.position,
            .head = query_row.head,
            .grad_scores =
                tile.scratch.grad_scores + place * panel_floats + r % lanes,
            .step = lanes,
            .seen = tile.scratch.seen[place]},
           step.cols.first);
  }
}

}  // namespace flashacl::cpu
