// SPDX-License-Identifier: Apache-2.0
// Counting without looking at a single score.
#include "plan/cost.h"

#include <algorithm>
#include <limits>

#include "problem/grid.h"

namespace flashacl {
namespace {

// The sum of clamp(x, low, high) over x in `run`; low <= high.
double SumOfClamped(Range run, int64_t low, int64_t high) {
  const int64_t middle_first = std::clamp(low, run.first, run.last);
  const int64_t middle_last = std::clamp(high, middle_first, run.last);
  const auto below = static_cast<double>(middle_first - run.first);
  const auto middle = static_cast<double>(middle_last - middle_first);
  const auto above = static_cast<double>(run.last - middle_last);
  const auto ends = static_cast<double>(middle_first + middle_last - 1);
  return below * static_cast<double>(low) + middle * ends / 2 +
         above * static_cast<double>(high);
}

double Elements(const TensorSpec& spec) {
  double elements = spec.present() ? 1 : 0;
  for (size_t axis = 0; axis < 4; ++axis) {
    // What repeats is there once.
    if (spec.strides[axis] == 0) continue;
    elements *= static_cast<double>(spec.dims[axis]);
  }
  return elements;
}

double Bytes(const AttentionProblem& problem, Slot slot) {
  const TensorSpec& spec = problem[slot];
  if (slot == Slot::kKeep) return Elements(spec) / 8;
  const double elements =
      IsBlocks(spec.placement)
          ? static_cast<double>(
                Grid(spec, problem.lengths.sequences).ElementsNeeded())
          : Elements(spec);
  return elements * static_cast<double>(SizeOf(spec.dtype));
}

// How many rows any query sees, and how often scores are needed, for one head.
struct Counts {
  double rows = 0;
  double columns = 0;  // seen by at least one row of their sequence
  double pairs = 0;
  double all_pairs = 0;
};

double SeenColumns(const Band& band, int64_t rows, int64_t columns) {
  if (rows == 0) return 0;
  const int64_t head = std::clamp<int64_t>(band.prefix, 0, columns);
  if (band.upper < band.lower) return static_cast<double>(head);
  const int64_t first = std::clamp(band.lower, head, columns);
  const int64_t last = std::clamp(rows + band.upper, first, columns);
  return static_cast<double>(head + last - first);
}

Counts CountSequences(const AttentionProblem& problem) {
  Counts counts;
  for (int64_t b = 0; b < problem.lengths.count(); ++b) {
    const Sequence& sequence =
        problem.lengths.sequences[static_cast<size_t>(b)];
    const int64_t rows = sequence.rows();
    const int64_t columns = sequence.columns();
    const Band band = problem.mask.BandOf(b, rows, columns);
    counts.rows += static_cast<double>(rows);
    counts.columns += SeenColumns(band, rows, columns);
    counts.pairs += VisiblePairs(band, {0, rows}, {0, columns});
    counts.all_pairs +=
        static_cast<double>(rows) * static_cast<double>(columns);
  }
  if (!problem.kv.gathers()) return counts;
  const double listed = counts.rows *
                        static_cast<double>(problem[Slot::kTopK].dims[3]) *
                        static_cast<double>(problem.kv.gather_rows);
  counts.pairs = std::min(counts.pairs, listed);
  const double lists = static_cast<double>(problem.kv_heads);
  counts.columns = std::min(counts.columns, listed * lists);
  return counts;
}

bool IsQueryLike(Slot slot) {
  return slot == Slot::kQuery || slot == Slot::kQueryRope ||
         slot == Slot::kQueryRowScale;
}

bool IsKeyLike(Slot slot) {
  return slot == Slot::kKey || slot == Slot::kKeyRope || slot == Slot::kValue;
}

bool IsResult(Direction direction, Slot slot) {
  if (direction == Direction::kBackward) return slot > Slot::kGradOut;
  return slot >= Slot::kOut && slot <= Slot::kRowSum;
}

void CountBytes(const AttentionProblem& problem, const Counts& counts,
                Cost& work) {
  work.bytes_written = ResultBytes(problem);
  for (size_t index = 0; index < kSlots; ++index) {
    const auto slot = static_cast<Slot>(index);
    const TensorSpec& spec = problem[slot];
    if (!spec.present() || IsResult(problem.direction, slot)) continue;
    const double row_bytes =
        static_cast<double>(spec.dims[2] * spec.dims[3] * SizeOf(spec.dtype));
    if (IsQueryLike(slot)) {
      work.bytes_read += counts.rows * row_bytes;
    } else if (slot == Slot::kKeyPrefix || slot == Slot::kValuePrefix) {
      continue;  // columns of keys and values
    } else if (IsKeyLike(slot)) {
      work.bytes_read += counts.columns * row_bytes;
    } else {
      work.bytes_read += Bytes(problem, slot);
    }
  }
}

}  // namespace

double ResultBytes(const AttentionProblem& problem) {
  double bytes = 0;
  for (size_t index = 0; index < kSlots; ++index) {
    const auto slot = static_cast<Slot>(index);
    if (IsResult(problem.direction, slot)) bytes += Bytes(problem, slot);
  }
  return bytes;
}

double VisiblePairs(const Band& band, Range rows, Range cols) {
  if (rows.empty() || cols.empty()) return 0;
  const int64_t head = std::clamp(band.prefix, cols.first, cols.last);
  double pairs =
      static_cast<double>(rows.size()) * static_cast<double>(head - cols.first);
  if (band.upper < band.lower) return pairs;
  // Row i sees columns [i + lower, i + upper + 1), cut off at both ends.
  pairs +=
      SumOfClamped({rows.first + band.upper + 1, rows.last + band.upper + 1},
                   head, cols.last) -
      SumOfClamped({rows.first + band.lower, rows.last + band.lower}, head,
                   cols.last);
  return pairs;
}

Cost CountCost(const AttentionProblem& problem) {
  const Counts counts = CountSequences(problem);
  const auto heads = static_cast<double>(problem.heads);
  const auto qk = static_cast<double>(problem.qk_dim + problem.rope_dim);
  const auto v = static_cast<double>(problem.v_dim);
  Cost work;
  work.pairs = counts.pairs * heads;
  work.all_pairs = counts.all_pairs * heads;
  // Forward: q.k and p.v. Backward: q.k and do.v again, then dq, dk and dv.
  work.flops =
      work.pairs * (problem.direction == Direction::kForward ? 2 * qk + 2 * v
                                                             : 6 * qk + 4 * v);
  work.upper_bound = !problem.lengths.known() || problem.has(Slot::kMask) ||
                     problem.kv.gathers();
  CountBytes(problem, counts, work);
  return work;
}

double MicrosecondsOf(const AttentionProblem& problem, double gflops) {
  // A thread alone reads 10 to 20 of them from memory (docs/notes/0013).
  constexpr double kGigabytes = 10;
  // Counting more of them takes longer than what is decided by it may.
  constexpr int64_t kMaxSequences = 32;
  if (gflops <= 0 || problem.lengths.count() > kMaxSequences) {
    return std::numeric_limits<double>::infinity();
  }
  const Cost cost = CountCost(problem);
  return std::max(cost.flops / gflops,
                  (cost.bytes_read + cost.bytes_written) / kGigabytes) *
         1e-3;
}

}  // namespace flashacl
