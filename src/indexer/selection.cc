// SPDX-License-Identifier: Apache-2.0
// Runs of selections: groups of rows for the workers. Where groups are few,
// each is done for several splits of its keys, and what those keep is merged.
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "base/str.h"
#include "cpu/work_loop.h"
#include "indexer/selection_kernel.h"
#include "indexer/sequences.h"
#include "plan/workspace.h"

namespace flashacl::indexer {
namespace {

// Query rows of a group share the packing of keys, which costs them a fifth of
// their products if they are one and a fiftieth if they are eight. As floats
// they must stay in L2.
constexpr int64_t kMaxGroupRows = 8;
constexpr int64_t kGroupBytes = 512 << 10;

// Groups that a worker should have: the last ones are done by some alone.
constexpr int64_t kGroupsOfWorker = 4;
// Keys of a split: fewer are scored sooner than what they keep is merged.
constexpr int64_t kMinSplitKeys = 1024;

struct Sizes {
  Sizes(const Selection& selection, bool matrices) {
    const AttentionProblem& problem = selection.rows.problem;
    const Lengths& lengths = problem.lengths;
    max_keys = lengths.max_columns();
    keep = std::min(selection.indices.spec.dims[3], max_keys);
    capacity = Candidates::CapacityOf(keep, max_keys);
    padded_heads = PaddedHeads(problem.heads, matrices);
    const int64_t row_bytes = padded_heads * problem.qk_dim * 4;
    group_rows = std::clamp<int64_t>(kGroupBytes / row_bytes, 1, kMaxGroupRows);
    group_rows = std::max<int64_t>(std::min(group_rows, lengths.max_rows()), 1);
    // With fewer than kGroupsOfWorker groups for each worker, twice as many
    // pieces of at most group_rows rows.
    const int64_t pieces = kGroupsOfWorker * selection.rows.workers;
    split_rows = selection.rows.workers == 1 ? 0 : 2 * pieces * group_rows;
  }

  int64_t max_keys, keep, capacity, padded_heads, group_rows;
  int64_t split_rows;  // rows, each as often as its keys are split
};

// Scratch memory of all workers.
struct Workspace {
  Workspace(const Selection& selection, const Sizes& sizes,
            WorkspaceLayout& layout) {
    const int64_t workers = selection.rows.workers;
    const int64_t channels = selection.rows.channels();
    const int64_t padded = RoundUp(channels, 4);
    const auto reserve = [&](std::string_view name, int64_t count) {
      return layout.Reserve<float>(name, workers * RoundUp(count, 16));
    };
    queries =
        reserve("queries", sizes.group_rows * sizes.padded_heads * channels);
    weights = reserve("weights", sizes.group_rows * sizes.padded_heads);
    staging = reserve("staging", kMaxLanes * padded);
    panel = reserve("panel", kMaxLanes * padded);
    places =
        layout.Reserve<const std::byte*>("places", workers * 3 * kMatrixKeys);
    rows = layout.Reserve<SelectingRow>("rows", workers * sizes.group_rows);
    candidates = layout.Reserve<Candidate>(
        "candidates", workers * sizes.group_rows * sizes.capacity);
    kept = layout.Reserve<Candidate>("kept", sizes.split_rows * sizes.keep);
    kept_counts = layout.Reserve<int64_t>("kept counts", sizes.split_rows);
  }

  template <typename T>
  static T* Of(const Region<T>& region, int64_t worker, int64_t workers,
               std::byte* memory) {
    return region.In(memory).data() + worker * (region.count / workers);
  }

  Region<float> queries, weights, staging, panel;
  Region<const std::byte*> places;
  Region<SelectingRow> rows;
  Region<Candidate> candidates, kept;
  Region<int64_t> kept_counts;
};

// What a run writes, of one row.
class Results {
 public:
  Results(const Selection& selection, At at)
      : selection_(selection),
        indices_(selection.indices.In(at)),
        values_(selection.values ? selection.values->In(at) : nullptr) {}

  void Write(int64_t sequence, int64_t row,
             std::span<const Candidate> best) const {
    const int64_t width = selection_.indices.spec.dims[3];
    const int64_t count = static_cast<int64_t>(best.size());
    const TensorSpec& spec = selection_.indices.spec;
    std::byte* index = indices_ + spec.At(sequence, row) * 4;
    for (int64_t u = 0; u < width; ++u, index += spec.strides[3] * 4) {
      Store<int32_t>(index,
                     u < count ? best[static_cast<size_t>(u)].key() : -1);
    }
    if (values_ == nullptr) return;
    const TensorSpec& value_spec = selection_.values->spec;
    const int64_t bytes = SizeOf(value_spec.dtype);
    std::byte* value = values_ + value_spec.At(sequence, row) * bytes;
    for (int64_t u = 0; u < width; ++u) {
      const float score = u < count
                              ? ScoreOf(best[static_cast<size_t>(u)].ordered())
                              : -std::numeric_limits<float>::infinity();
      WriteNumber(value_spec.dtype, value, double{score});
      value += value_spec.strides[3] * bytes;
    }
  }

 private:
  const Selection& selection_;
  std::byte* const indices_;
  std::byte* const values_;
};

class Selecting final : public Computation {
 public:
  explicit Selecting(Selection selection)
      : selection_(std::move(selection)),
        dots_(PairDotsOf(selection_.rows.problem, kernels_.has_pair_dots,
                         kernels_.matrices)),
        sizes_(selection_, dots_ == cpu::PairDots::kMatrices),
        workspace_(selection_, sizes_, layout_) {}

  std::string_view name() const override { return "indexer/selection"; }

  std::string Describe() const override {
    const AttentionProblem& problem = selection_.rows.problem;
    return Str("{}: {} heads of {}, {} of at most {} keys{}",
               Name(problem[Slot::kQuery].dtype), problem.heads, problem.qk_dim,
               selection_.indices.spec.dims[3], sizes_.max_keys,
               selection_.rows.causal ? ", causal" : "");
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  Status Run(At at, std::byte* memory, Queue& queue) const override;

 private:
  friend class SelectionRun;

  const Selection selection_;
  const SelectionKernels kernels_ = SelectionKernelsHere();
  const cpu::PairDots dots_;
  const Sizes sizes_;
  WorkspaceLayout layout_;
  const Workspace workspace_;
};

// One run.
class SelectionRun {
 public:
  SelectionRun(const Selecting& of, At at, std::byte* memory, Workers& workers)
      : of_(of),
        sizes_(of.sizes_),
        memory_(memory),
        workers_(workers),
        sequences_(of.selection_.rows, at),
        results_(of.selection_, at),
        weights_(of.selection_.rows.weights.In(at)),
        groups_(sequences_.Cut(sizes_.group_rows)) {
    // The longest first, so that the last to be done are short.
    std::sort(groups_.begin(), groups_.end(),
              [&](const RowRange& a, const RowRange& b) {
                return KeysOf(a) > KeysOf(b);
              });
    const int64_t groups = static_cast<int64_t>(groups_.size());
    const int64_t wanted =
        kGroupsOfWorker *
        std::min<int64_t>(of.selection_.rows.workers, workers.count());
    if (groups == 0 || groups >= wanted || workers.count() == 1) return;
    if (of.selection_.rows.workers == 1) return;
    num_splits_ = std::clamp<int64_t>(KeysOf(groups_[0]) / kMinSplitKeys, 1,
                                      CeilDiv(wanted, groups));
  }

  void Run() {
    const RunVector<RowRange> unowned = sequences_.CutUnowned(64);
    workers_.ForEach(static_cast<int64_t>(unowned.size()), [&](int64_t n) {
      const RowRange& rows = unowned[static_cast<size_t>(n)];
      for (int64_t row = rows.rows.first; row < rows.rows.last; ++row) {
        results_.Write(rows.sequence, row, {});
      }
    });
    ForEach(static_cast<int64_t>(groups_.size()) * num_splits_,
            [&](int64_t n, int64_t worker) {
              SelectSplit(n / num_splits_, n % num_splits_, worker);
            });
    if (num_splits_ == 1) return;
    ForEach(static_cast<int64_t>(groups_.size()) * sizes_.group_rows,
            [&](int64_t n, int64_t worker) {
              MergeRow(n / sizes_.group_rows, n % sizes_.group_rows, worker);
            });
  }

 private:
  template <typename Work>
  void ForEach(int64_t count, Work work) {
    cpu::ForEachWorker(workers_, of_.selection_.rows.workers, count,
                       [&](int64_t worker, auto take) {
                         for (int64_t n = take(); n < count; n = take()) {
                           work(n, worker);
                         }
                       });
  }

  int64_t KeysOf(const RowRange& group) const {
    return sequences_.Seen(group.sequence, group.rows.last - 1);
  }

  template <typename T>
  T* Scratch(const Region<T>& region, int64_t worker) const {
    return Workspace::Of(region, worker, of_.selection_.rows.workers, memory_);
  }

  Candidates NewCandidates(int64_t worker, int64_t row) const {
    return {Scratch(of_.workspace_.candidates, worker) + row * sizes_.capacity,
            sizes_.capacity, sizes_.keep};
  }

  // What a split keeps of a row of a group.
  int64_t KeptOf(int64_t group, int64_t row, int64_t split) const {
    return (group * sizes_.group_rows + row) * num_splits_ + split;
  }

  SelectionTile TileOf(const RowRange& group, int64_t worker) const {
    const Workspace& workspace = of_.workspace_;
    const Selection& selection = of_.selection_;
    SelectionTile tile;
    tile.query = sequences_.Queries(group.sequence);
    tile.weights = Sequences::RowsOf(selection.rows.weights.spec, weights_,
                                     group.sequence);
    tile.heads = selection.rows.heads();
    tile.channels = selection.rows.channels();
    tile.dots = of_.dots_;
    tile.rows = Scratch(workspace.rows, worker);
    tile.row_count = group.rows.size();
    tile.keys = sequences_.Keys(group.sequence);
    tile.scratch = {
        Scratch(workspace.queries, worker), Scratch(workspace.weights, worker),
        Scratch(workspace.staging, worker), Scratch(workspace.panel, worker),
        Scratch(workspace.places, worker)};
    for (int64_t r = 0; r < tile.row_count; ++r) {
      const int64_t row = group.rows.first + r;
      tile.rows[r] = {row, sequences_.Seen(group.sequence, row),
                      NewCandidates(worker, r)};
    }
    return tile;
  }

  void SelectSplit(int64_t number, int64_t split, int64_t worker) const {
    const RowRange& group = groups_[static_cast<size_t>(number)];
    SelectionTile tile = TileOf(group, worker);
    const int64_t keys = KeysOf(group);
    tile.cols = {keys * split / num_splits_, keys * (split + 1) / num_splits_};
    if (keys > 0) of_.kernels_.select(tile);
    for (int64_t r = 0; r < tile.row_count; ++r) {
      SelectingRow& row = tile.rows[r];
      if (num_splits_ == 1) {
        results_.Write(group.sequence, row.position, row.kept.Sorted());
        continue;
      }
      row.kept.Compact();
      const auto kept = row.kept.kept();
      const int64_t place = KeptOf(number, r, split);
      std::ranges::copy(
          kept, of_.workspace_.kept.In(memory_).data() + place * sizes_.keep);
      of_.workspace_.kept_counts.In(memory_)[static_cast<size_t>(place)] =
          static_cast<int64_t>(kept.size());
    }
  }

  void MergeRow(int64_t number, int64_t r, int64_t worker) const {
    const RowRange& group = groups_[static_cast<size_t>(number)];
    if (r >= group.rows.size()) return;
    Candidates best = NewCandidates(worker, 0);
    for (int64_t split = 0; split < num_splits_; ++split) {
      const int64_t place = KeptOf(number, r, split);
      const int64_t count =
          of_.workspace_.kept_counts.In(memory_)[static_cast<size_t>(place)];
      best.Take({of_.workspace_.kept.In(memory_).data() + place * sizes_.keep,
                 static_cast<size_t>(count)});
    }
    results_.Write(group.sequence, group.rows.first + r, best.Sorted());
  }

  const Selecting& of_;
  const Sizes& sizes_;
  std::byte* const memory_;
  Workers& workers_;
  const Sequences sequences_;
  const Results results_;
  std::byte* const weights_;
  RunVector<RowRange> groups_;
  int64_t num_splits_ = 1;
};

Status Selecting::Run(At at, std::byte* memory, Queue& queue) const {
  return queue.OnHost([&](Workers& workers) -> Status {
    const RunMemoryScope scope;
    SelectionRun(*this, at, memory, workers).Run();
    return {};
  });
}

}  // namespace

std::shared_ptr<const Computation> MakeSelection(Selection selection) {
  return std::make_shared<const Selecting>(std::move(selection));
}

}  // namespace flashacl::indexer
