// SPDX-License-Identifier: Apache-2.0
// Moves addresses and narrows extents, slot by slot.
#include "verify/subproblem.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "plan/sequences.h"
#include "problem/grid.h"

namespace flashacl {
namespace {

using Rows = KvSource::Rows;

// What is taken: rows and columns count from the start of the sequence.
struct Window {
  int64_t sequence;
  Range rows;
  Range columns;
};

// An open side of a band, which other corners may have moved a little, stays
// open.
int64_t Moved(int64_t distance, int64_t by) {
  if (std::abs(distance) < Band::kOpen / 2) return distance + by;
  return distance < 0 ? -Band::kOpen : Band::kOpen;
}

class Cutter {
 public:
  Cutter(const AttentionProblem& problem, const Bindings& bindings)
      : whole_(problem),
        sequences_(ResolveSequences(problem, bindings)),
        subproblem_{problem, bindings} {}

  const Sequence& At(int64_t sequence) const {
    return sequences_[static_cast<size_t>(sequence)];
  }

  Result<Subproblem> Take(const Window& window) {
    for (Slot slot : {Slot::kMask, Slot::kBias, Slot::kKeep, Slot::kRowMax,
                      Slot::kRowSum, Slot::kLse}) {
      FLASHACL_RETURN_IF_ERROR(TakePlane(slot, window));
    }
    for (Slot slot :
         {Slot::kQuery, Slot::kQueryRope, Slot::kQueryRowScale, Slot::kTopK,
          Slot::kOut, Slot::kGradOut, Slot::kGradQuery, Slot::kGradQueryRope}) {
      const int64_t first = At(window.sequence).queries.first;
      TakeRowsOf(slot, window.sequence,
                 {first + window.rows.first, first + window.rows.last});
    }
    TakeKeys(window);
    TakeMask(window);
    TakeScore(window);
    AttentionProblem& problem = subproblem_.problem;
    const Range keys = problem.kv.rows == Rows::kPaged
                           ? window.columns
                           : Range{0, window.columns.size()};
    const int64_t prefix = At(window.sequence).prefix;
    problem.lengths = {
        {{{0, window.rows.size()}, {keys.first, keys.last - prefix}, prefix}}};
    Drop({Slot::kQueryLengths, Slot::kKeyLengths, Slot::kKeyPadding,
          Slot::kQueryPadding, Slot::kGradBias, Slot::kGradSink});
    return subproblem_;
  }

  void Drop(std::initializer_list<Slot> slots) {
    for (Slot slot : slots) {
      subproblem_.problem[slot] = {};
      subproblem_.bindings[slot] = nullptr;
    }
  }

 private:
  TensorSpec& Spec(Slot slot) { return subproblem_.problem[slot]; }

  // `offset` elements; bits for keep bits.
  void Move(Slot slot, int64_t offset) {
    subproblem_.bindings[slot] +=
        slot == Slot::kKeep ? offset / 8 : offset * SizeOf(Spec(slot).dtype);
  }

  // One sequence of a tensor whose first axis counts them.
  void TakeSequence(Slot slot, int64_t sequence) {
    if (!Spec(slot).present()) return;
    Move(slot, Spec(slot).At(sequence));
    Spec(slot).dims[0] = 1;
  }

  void TakeRowsOf(Slot slot, int64_t sequence, Range rows) {
    if (!Spec(slot).present()) return;
    TakeSequence(slot, sequence);
    Move(slot, Spec(slot).At(0, rows.first));
    Spec(slot).dims[1] = rows.size();
  }

  // A grid becomes one strided plane per head.
  Status TakePlane(Slot slot, const Window& window) {
    if (!whole_.has(slot)) return {};
    if (slot == Slot::kBias && IsAlibi(whole_.score.bias)) {
      TakeSequence(slot, window.sequence);
      return {};
    }
    TensorSpec& spec = Spec(slot);
    if (spec.placement == Placement::kDiagonal) {
      return Unsupported("{}: rows of stored diagonals cannot be taken",
                         Name(slot));
    }
    if (IsTail(spec.placement)) {
      return Unsupported("{}: columns of a tail cannot be taken", Name(slot));
    }
    const bool per_row = IsRowResult(slot);
    const Grid grid(spec, sequences_);
    const GridPlane plane = grid.Plane(window.sequence, 0);
    const int64_t of_next_head =
        whole_.heads > 1 ? grid.Plane(window.sequence, 1).offset - plane.offset
                         : 0;
    const int64_t offset =
        plane.At(window.rows.first, per_row ? 0 : window.columns.first);
    if (slot == Slot::kKeep && offset % 8 != 0) {
      return Unsupported("{}: rows that start inside a byte cannot be taken",
                         Name(slot));
    }
    Move(slot, offset);
    const int64_t last = per_row ? spec.dims[3] : window.columns.size();
    spec.dims = {1, whole_.heads, window.rows.size(), last};
    spec.strides = {0, of_next_head, plane.row_stride, plane.column_stride};
    spec.placement = Placement::kStrided;
    return {};
  }

  // Scales by row of keys that are taken; those of pages stay where pages are.
  void TakeRowFactors(const Window& window) {
    if (whole_.kv.row_scales_in_pages) return;
    for (Slot slot : {Slot::kKeyRowScale, Slot::kKeyRowOffset,
                      Slot::kValueRowScale, Slot::kValueRowOffset}) {
      const bool tensor_rows = Spec(slot).placement == Placement::kTensorRows;
      const int64_t first = tensor_rows ? At(window.sequence).keys.first : 0;
      TakeRowsOf(slot, window.sequence,
                 {first + window.columns.first, first + window.columns.last});
      Spec(slot).placement = Placement::kStrided;
    }
  }

  void TakeKeys(const Window& window) {
    KvSource& kv = subproblem_.problem.kv;
    // Columns of a prefix are rows of tensors of its own.
    const int64_t first =
        At(window.sequence).keys.first - At(window.sequence).prefix;
    TakeRowFactors(window);
    if (kv.rows == Rows::kPaged) {
      return TakeSequence(Slot::kBlockTable, window.sequence);
    }
    if (kv.rows == Rows::kList) {
      const auto b = static_cast<size_t>(window.sequence);
      TakeOneOfList(kv.key_list, subproblem_.bindings.key_list, b);
      TakeOneOfList(kv.value_list, subproblem_.bindings.value_list, b);
      TakeRowsOf(Slot::kKeyRope, window.sequence,
                 {first, first + window.columns.last});
      return;
    }
    for (Slot slot : {Slot::kKey, Slot::kKeyRope, Slot::kValue, Slot::kGradKey,
                      Slot::kGradKeyRope, Slot::kGradValue}) {
      const int64_t from = std::max(first + window.columns.first,
                                    At(window.sequence).keys.first);
      TakeRowsOf(slot, window.sequence, {from, first + window.columns.last});
    }
  }

  static void TakeOneOfList(std::vector<TensorSpec>& specs,
                            std::vector<std::byte*>& addresses, size_t b) {
    if (specs.empty()) return;
    specs = {specs[b]};
    addresses = {addresses[b]};
  }

  void TakeMask(const Window& window) {
    if (whole_.mask.rules.empty()) return;
    const Sequence& all = At(window.sequence);
    Band band = whole_.mask.BandOf(window.sequence, all.rows(), all.columns());
    const int64_t by = window.rows.first - window.columns.first;
    band.lower = Moved(band.lower, by);
    band.upper = Moved(band.upper, by);
    band.prefix = std::max<int64_t>(band.prefix - window.columns.first, 0);
    subproblem_.problem.mask.rules = {{MaskRule::Corner::kTopLeft, band}};
  }

  void TakeScore(const Window& window) {
    Score& score = subproblem_.problem.score;
    if (!IsAlibi(score.bias)) return;
    if (score.starts_only_first && window.sequence > 0) {
      score.query_start = score.key_start = 0;
    }
    score.starts_only_first = false;
    score.query_start += window.rows.first;
    score.key_start += window.columns.first;
  }

  const AttentionProblem& whole_;
  const std::vector<Sequence> sequences_;
  Subproblem subproblem_;
};

}  // namespace

Result<Subproblem> TakeRows(const AttentionProblem& problem,
                            const Bindings& bindings, int64_t sequence,
                            Range rows) {
  Cutter cutter(problem, bindings);
  cutter.Drop({Slot::kGradKey, Slot::kGradKeyRope, Slot::kGradValue});
  return cutter.Take({sequence, rows, {0, cutter.At(sequence).columns()}});
}

Result<Subproblem> TakeColumns(const AttentionProblem& problem,
                               const Bindings& bindings, int64_t sequence,
                               Range columns) {
  const Rows source = problem.kv.rows;
  if (source != Rows::kStrided) {
    return Unsupported("columns of paged or listed keys cannot be taken");
  }
  if (problem.has(Slot::kKeyPrefix)) {
    return Unsupported("columns beside a prefix cannot be taken");
  }
  if (problem.kv.gathers() && columns.first != 0) {
    return Unsupported(
        "columns of gathered keys cannot be taken but from 0 on");
  }
  Cutter cutter(problem, bindings);
  cutter.Drop({Slot::kGradQuery, Slot::kGradQueryRope});
  return cutter.Take({sequence, {0, cutter.At(sequence).rows()}, columns});
}

}  // namespace flashacl
