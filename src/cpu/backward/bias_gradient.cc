// SPDX-License-Identifier: Apache-2.0
// Sums by offset into the tensor, or one store per score.
#include "cpu/backward/bias_gradient.h"

#include <algorithm>
#include <array>

#include "base/number.h"
#include "cpu/forward/forward_operands.h"

namespace flashacl::cpu {
namespace {

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
  return Grid(BiasSpec(problem, Slot::kGradBias), problem.lengths.sequences)
      .ElementsNeeded();
}

BiasGradient::BiasGradient(const AttentionProblem& problem,
                           const Bindings& bindings,
                           std::span<const Sequence> sequences,
                           std::span<double> sums)
    : problem_(problem),
      base_(bindings[Slot::kGradBias]),
      grid_(BiasSpec(problem, Slot::kGradBias), sequences),
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

int64_t BiasGradient::ClassOf(const Tile& tile) const {
  const int64_t of_head = HeadsAreApart() ? tile.kv_head : 0;
  if (!SequencesAreApart()) return of_head;
  return tile.sequence * (HeadsAreApart() ? problem_.kv_heads : 1) + of_head;
}

void BiasGradient::Write(int64_t offset, float value) const {
  const DType dtype = grid_.spec().dtype;
  WriteNumber(dtype, base_ + offset * SizeOf(dtype), double{value});
}

// Elements of scores that nobody sees are 0.
void BiasGradient::Clear() const {
  if (!wanted()) return;
  std::ranges::fill(sums_, 0.0);
  const TensorSpec& spec = grid_.spec();
  // All there is room for, though sequences may be shorter in this run.
  const int64_t end = Grid(spec, problem_.lengths.sequences).ElementsNeeded();
  ClearElements(spec, base_, end);
}

void BiasGradient::Store(Workers& workers) const {
  if (!shared_) return;
  const TensorSpec& spec = grid_.spec();
  const auto store = [&](int64_t offset) {
    Write(offset, static_cast<float>(sums_[static_cast<size_t>(offset)]));
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
  const std::array<int64_t, 4> count = spec.DistinctDims();
  workers.ForEach(count[0] * count[1], [&](int64_t plane) {
    for (int64_t z = 0; z < count[2]; ++z) {
      for (int64_t d = 0; d < count[3]; ++d) {
        store(spec.At(plane / count[1], plane % count[1], z, d));
      }
    }
  });
}

// A row of a block: gradients of scores `stride` floats apart, of the keys
// `seen` of the step that begins with column `first`.
struct BiasGradient::Row {
  int64_t i;
  int64_t head;
  const float* grad_scores;
  int64_t stride;
  int64_t first;
  Range seen;

  // Calls body(j, ds). A gradient of 0 is also that of what is hidden, which
  // may have no element.
  template <typename Body>
  void ForEachScore(Body body) const {
    for (int64_t n = seen.first; n < seen.last; ++n) {
      const float ds = grad_scores[n * stride];
      if (ds != 0.0f) body(first + n, ds);
    }
  }
};

void BiasGradient::AddRow(int64_t sequence, const Row& row) const {
  const Score& score = problem_.score;
  if (IsAlibi(score.bias)) {
    double sum = 0;
    row.ForEachScore([&](int64_t j, float ds) {
      sum += double{ds} * score.AlibiFactor(sequence, row.i, j);
    });
    sums_[static_cast<size_t>(grid_.spec().At(sequence, row.head))] -= sum;
    return;
  }
  const GridPlane plane = grid_.Plane(sequence, row.head);
  const float factor =
      score.bias == Score::Bias::kBeforeScale ? score.scale : 1.0f;
  row.ForEachScore([&](int64_t j, float ds) {
    const int64_t offset = plane.At(row.i, j);
    if (shared_) {
      sums_[static_cast<size_t>(offset)] += double{factor * ds};
    } else {
      Write(offset, factor * ds);
    }
  });
}

void BiasGradient::Add(int64_t sequence, const BackwardTile& tile,
                       const KeyStep& step, Range block) const {
  const int64_t lanes = tile.panel_rows;
  for (int64_t r = block.first; r < block.last; ++r) {
    const int64_t panel = (r - block.first) / lanes;
    const QueryRow& query_row = tile.scratch.query_rows[r];
    AddRow(sequence,
           {.i = query_row.position,
            .head = query_row.head,
            .grad_scores = tile.backward.grad_scores +
                           panel * tile.backward.panel_keys * lanes + r % lanes,
            .stride = lanes,
            .first = step.cols.first,
            .seen = tile.backward.seen[panel]});
  }
}

}  // namespace flashacl::cpu
