// SPDX-License-Identifier: Apache-2.0
// Runs of gradients: batches of rows, in two stages. First each row by itself,
// with what it adds to its keys in memory of its own; then that is added to
// sums of keys, row after row, by workers that share out keys and channels. So
// a sum is one chain in the order of rows and of their lists.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "base/str.h"
#include "cpu/work_loop.h"
#include "indexer/gradient_kernel.h"
#include "indexer/sequences.h"
#include "plan/workspace.h"

namespace flashacl::indexer {
namespace {

// What the rows of a batch add to keys, for each worker: some rows, so that
// waiting for the last one is a small share; yet not what no cache holds.
constexpr int64_t kBatchBytes = 4 << 20;
// How many workers share out keys alone: with two, whole rows took 0.83 of the
// time of halves, but whoever owns keys looks through all lists for them. And
// how many blocks of keys each of them should have.
constexpr int64_t kWholeRowWorkers = 4;
constexpr int64_t kBlocksOfWorker = 4;
// Rows of the result that are stored at a time.
constexpr int64_t kStoredRows = 256;

struct Sizes {
  explicit Sizes(const Gradient& gradient)
      : width(gradient.indices.spec.dims[3]),
        channels(PaddedChannels(gradient.rows.channels())),
        sums(SumChannels(gradient.rows.channels())),
        heads(RoundUp(gradient.rows.heads(), kMaxLanes)) {
    const AttentionProblem& problem = gradient.rows.problem;
    const TensorSpec& key = problem[Slot::kKey];
    const TensorSpec& query = problem[Slot::kQuery];
    // Packed keys are one sequence's, whatever belongs to whom.
    packed = problem.lengths.keys == Lengths::Device::kEnds;
    key_rows = packed ? key.dims[1] : key.dims[0] * key.dims[1];
    const int64_t rows = packed ? query.dims[1] : query.dims[0] * query.dims[1];
    const int64_t row_bytes = std::max<int64_t>(width * (sums * 4 + 12), 1);
    const int64_t wanted = std::max<int64_t>(
        gradient.rows.workers * kBatchBytes / row_bytes, gradient.rows.workers);
    batch_rows = std::clamp<int64_t>(rows, 1, wanted);
  }

  int64_t width, channels, sums, heads;
  bool packed;
  int64_t key_rows;  // of all sequences
  int64_t batch_rows;
};

struct Workspace {
  Workspace(const Gradient& gradient, const Sizes& sizes, bool matrices,
            WorkspaceLayout& layout)
      : workers(gradient.rows.workers) {
    constexpr int64_t kKeys = kStepKeys + kSpare;
    const int64_t heads = sizes.heads, channels = sizes.channels;
    sums = layout.Reserve<float>("sums", sizes.key_rows * sizes.sums);
    added = layout.Reserve<float>("added",
                                  sizes.batch_rows * sizes.width * sizes.sums);
    columns =
        layout.Reserve<int64_t>("columns", sizes.batch_rows * sizes.width);
    grad_scores =
        layout.Reserve<float>("grad scores", sizes.batch_rows * sizes.width);
    counts = layout.Reserve<int64_t>("counts", sizes.batch_rows);
    const auto reserve = [&](std::string_view name, int64_t count) {
      return layout.Reserve<float>(name, workers * count);
    };
    query_panels = reserve("query panels", heads * channels);
    query_channels = reserve(
        "query channels", heads * RoundUp(gradient.rows.channels(), kMaxLanes));
    staging = reserve("staging", kMaxLanes * channels);
    weights = reserve("weights", heads);
    keys = reserve("keys", kKeys * channels);
    key_pairs = reserve("key pairs", kKeys * channels / 2);
    products = reserve("products", kKeys * (matrices ? heads : kMaxLanes));
    grad_products = reserve("grad products", kKeys * heads);
    grad_query = reserve("grad query", heads * channels);
    grad_weights = reserve("grad weights", heads);
    if (matrices) {
      key_channels =
          reserve("key channels", gradient.rows.channels() * kKeyChannelStride);
      query_pairs =
          reserve("query pairs", heads * gradient.rows.channels() / 2);
    }
    places =
        layout.Reserve<const std::byte*>("places", workers * 3 * kStepKeys);
  }

  template <typename T>
  T* Of(const Region<T>& region, int64_t worker, std::byte* memory) const {
    return region.In(memory).data() + worker * (region.count / workers);
  }

  GradientScratch ScratchOf(int64_t worker, std::byte* memory) const {
    const auto of = [&](const auto& region) {
      return Of(region, worker, memory);
    };
    return {of(query_panels), of(query_channels), of(staging),
            of(weights),      of(keys),           of(key_pairs),
            of(products),     of(grad_products),  of(grad_query),
            of(grad_weights), of(key_channels),   of(query_pairs),
            of(places)};
  }

  const int64_t workers;
  Region<float> sums, added;
  Region<int64_t> columns;
  Region<float> grad_scores;
  Region<int64_t> counts;
  Region<float> query_panels, query_channels, staging, weights, keys, key_pairs,
      products, grad_products, grad_query, grad_weights, key_channels,
      query_pairs;
  Region<const std::byte*> places;
};

class Differentiating final : public Computation {
 public:
  explicit Differentiating(Gradient gradient)
      : gradient_(std::move(gradient)),
        sizes_(gradient_),
        dots_(PairDotsOf(gradient_.rows.problem, kernels_.has_pair_dots,
                         kernels_.matrices)),
        workspace_(gradient_, sizes_, dots_ == cpu::PairDots::kMatrices,
                   layout_) {}

  std::string_view name() const override { return "indexer/gradient"; }

  std::string Describe() const override {
    const AttentionProblem& problem = gradient_.rows.problem;
    return Str("{}: {} heads of {}, {} listed keys{}",
               Name(problem[Slot::kQuery].dtype), problem.heads, problem.qk_dim,
               sizes_.width, gradient_.rows.causal ? ", causal" : "");
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  Status Run(At at, std::byte* memory, Queue& queue) const override;

 private:
  friend class GradientRun;

  const Gradient gradient_;
  const Sizes sizes_;
  const GradientKernels kernels_ = GradientKernelsHere();
  const cpu::PairDots dots_;
  WorkspaceLayout layout_;
  const Workspace workspace_;
};

// One run.
class GradientRun {
 public:
  GradientRun(const Differentiating& of, At at, std::byte* memory,
              Workers& workers)
      : gradient_(of.gradient_),
        sizes_(of.sizes_),
        workspace_(of.workspace_),
        at_(at),
        memory_(memory),
        workers_(workers),
        sequences_(of.gradient_.rows, at),
        rows_(sequences_.Cut(1)),
        kernels_(of.kernels_),
        dots_(of.dots_),
        channel_cuts_(ChannelCuts()) {}

  void Run() {
    ClearUnowned();
    const int64_t blocks = CeilDiv(sizes_.key_rows, kStoredRows);
    workers_.ForEach(blocks, [&](int64_t n) {
      const Range rows = BlockOf(n);
      std::fill_n(Sums(rows.first), rows.size() * sizes_.sums, 0.0f);
    });
    const int64_t all = static_cast<int64_t>(rows_.size());
    for (int64_t first = 0; first < all; first += sizes_.batch_rows) {
      RunBatch({first, std::min(first + sizes_.batch_rows, all)});
    }
    workers_.ForEach(blocks, [&](int64_t n) { StoreKeys(BlockOf(n)); });
  }

 private:
  Range BlockOf(int64_t n) const {
    return {n * kStoredRows, std::min((n + 1) * kStoredRows, sizes_.key_rows)};
  }
  float* Sums(int64_t row) const {
    return workspace_.sums.In(memory_).data() + row * sizes_.sums;
  }

  // The rows of a sequence in an operand.
  cpu::TensorRows RowsOf(const Operand& operand, int64_t sequence) const {
    return Sequences::RowsOf(operand.spec, operand.In(at_), sequence);
  }

  void ClearUnowned() {
    const RunVector<RowRange> unowned = sequences_.CutUnowned(64);
    workers_.ForEach(static_cast<int64_t>(unowned.size()), [&](int64_t n) {
      const RowRange& rows = unowned[static_cast<size_t>(n)];
      for (int64_t r = rows.rows.first; r < rows.rows.last; ++r) {
        ClearRow(RowsOf(gradient_.grad_query, rows.sequence), r,
                 gradient_.rows.heads(), gradient_.rows.channels());
        ClearRow(RowsOf(gradient_.grad_weights, rows.sequence), r, 1,
                 gradient_.rows.heads());
      }
    });
  }

  static void ClearRow(const cpu::TensorRows& rows, int64_t row, int64_t heads,
                       int64_t channels) {
    const cpu::ElementFormat& format = rows.format;
    for (int64_t h = 0; h < heads; ++h) {
      std::byte* at = rows.At(row, h);
      for (int64_t c = 0; c < channels; ++c) {
        WriteNumber(format.dtype, at, 0);
        at += format.step * format.element_bytes;
      }
    }
  }

  // Into how many cuts channels go: one, where workers are few and a sequence
  // has keys for all of them.
  int64_t ChannelCuts() const {
    int64_t keys = 0;
    for (int64_t n = 0; n < sequences_.count(); ++n) {
      keys += sequences_[n].columns();
    }
    const int64_t workers = workers_.count();
    const int64_t blocks = std::max<int64_t>(
        keys / std::max<int64_t>(sequences_.count(), 1) / kOwnedKeys, 1);
    return std::clamp(std::max(CeilDiv(workers, kWholeRowWorkers),
                               CeilDiv(workers * kBlocksOfWorker, blocks)),
                      int64_t{1}, workers);
  }

  void RunBatch(Range batch) {
    cpu::ForEachWorker(
        workers_, workspace_.workers, batch.size(),
        [&](int64_t worker, auto take) {
          for (int64_t n = take(); n < batch.size(); n = take()) {
            Differentiate(rows_[static_cast<size_t>(batch.first + n)], n,
                          worker);
          }
        });
    const int64_t lines = sizes_.sums / kLine;
    const int64_t cuts = std::min(lines, channel_cuts_);
    const int64_t parts = CeilDiv(workers_.count(), cuts);
    workers_.ForEach(cuts * parts, [&](int64_t n) {
      const int64_t cut = n / parts;
      const Range channels{cut * lines / cuts * kLine,
                           (cut + 1) * lines / cuts * kLine};
      for (int64_t r = 0; r < batch.size(); ++r) {
        kernels_.add({.listed = ListedOf(r),
                      .added = AddedOf(r),
                      .sums = SumsOf(
                          rows_[static_cast<size_t>(batch.first + r)].sequence),
                      .stride = sizes_.sums,
                      .channels = channels,
                      .part = n % parts,
                      .parts = parts});
      }
    });
  }

  // Of the sequence's first key.
  float* SumsOf(int64_t sequence) const {
    const int64_t first = sequences_[sequence].keys.first;
    const TensorSpec& key = gradient_.rows.problem[Slot::kKey];
    return Sums(sizes_.packed ? first : sequence * key.dims[1] + first);
  }

  // What row n of a batch lists, and adds.
  int64_t* ColumnsOf(int64_t n) const {
    return workspace_.columns.In(memory_).data() + n * sizes_.width;
  }
  float* GradScoresOf(int64_t n) const {
    return workspace_.grad_scores.In(memory_).data() + n * sizes_.width;
  }
  float* AddedOf(int64_t n) const {
    return workspace_.added.In(memory_).data() + n * sizes_.width * sizes_.sums;
  }
  int64_t& CountOf(int64_t n) const {
    return workspace_.counts.In(memory_)[static_cast<size_t>(n)];
  }
  ListedKeys ListedOf(int64_t n) const {
    return {ColumnsOf(n), GradScoresOf(n), CountOf(n)};
  }

  // Reads the list of a row into place n of its batch.
  void ReadList(const RowRange& row, int64_t n) const {
    CountOf(n) = 0;
    if (sizes_.width == 0) return;
    const int64_t seen = sequences_.Seen(row.sequence, row.rows.first);
    const TensorSpec& index_spec = gradient_.indices.spec;
    const TensorSpec& score_spec = gradient_.grad_score.spec;
    const std::byte* const index =
        gradient_.indices.In(at_) +
        index_spec.At(row.sequence, row.rows.first) * 4;
    const int64_t bytes = SizeOf(score_spec.dtype);
    const std::byte* const score =
        gradient_.grad_score.In(at_) +
        score_spec.At(row.sequence, row.rows.first) * bytes;
    const int64_t most =
        gradient_.rows.causal ? std::min(sizes_.width, seen) : sizes_.width;
    int64_t count = 0;
    for (int64_t u = 0; u < most; ++u) {
      const int64_t key = Load<int32_t>(index + u * index_spec.strides[3] * 4);
      if (key < 0) break;
      if (key >= seen) continue;
      ColumnsOf(n)[count] = key;
      GradScoresOf(n)[count++] = static_cast<float>(ReadNumber(
          score_spec.dtype, score + u * score_spec.strides[3] * bytes));
    }
    CountOf(n) = count;
  }

  void Differentiate(const RowRange& row, int64_t n, int64_t worker) const {
    ReadList(row, n);
    kernels_.differentiate(
        {.query = sequences_.Queries(row.sequence),
         .weights = RowsOf(gradient_.rows.weights, row.sequence),
         .grad_query = RowsOf(gradient_.grad_query, row.sequence),
         .grad_weights = RowsOf(gradient_.grad_weights, row.sequence),
         .position = row.rows.first,
         .heads = gradient_.rows.heads(),
         .channels = gradient_.rows.channels(),
         .dots = dots_,
         .keys = sequences_.Keys(row.sequence),
         .listed = ListedOf(n),
         .added = AddedOf(n),
         .scratch = workspace_.ScratchOf(worker, memory_)});
  }

  void StoreKeys(Range rows) const {
    const int64_t sequence_rows = gradient_.rows.problem[Slot::kKey].dims[1];
    for (int64_t row = rows.first; row < rows.last; ++row) {
      const int64_t sequence = sizes_.packed ? 0 : row / sequence_rows;
      const int64_t first = sizes_.packed ? 0 : sequence * sequence_rows;
      const cpu::TensorRows to = RowsOf(gradient_.grad_key, sequence);
      kernels_.store(to.format, Sums(row), gradient_.rows.channels(),
                     to.At(row - first, 0));
    }
  }

  const Gradient& gradient_;
  const Sizes& sizes_;
  const Workspace& workspace_;
  const At at_;
  std::byte* const memory_;
  Workers& workers_;
  const Sequences sequences_;
  const RunVector<RowRange> rows_;
  const GradientKernels& kernels_;
  const cpu::PairDots dots_;
  const int64_t channel_cuts_;
};

Status Differentiating::Run(At at, std::byte* memory, Queue& queue) const {
  return queue.OnHost([&](Workers& workers) -> Status {
    const RunMemoryScope scope;
    GradientRun(*this, at, memory, workers).Run();
    return {};
  });
}

}  // namespace

std::shared_ptr<const Computation> MakeGradient(Gradient gradient) {
  return std::make_shared<const Differentiating>(std::move(gradient));
}

}  // namespace flashacl::indexer
