// SPDX-License-Identifier: Apache-2.0
// Batch by batch of sequences, stage by stage of positions: workers find dq and
// save p and ds of one stage while they add those of the stage before to the
// sums of dk and dv.
#include <algorithm>
#include <span>

#include "base/run_memory.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "cpu/share_tuning.h"
#include "cpu/sizes.h"
#include "cpu/support.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_backward_kernel.h"
#include "cpu/topk/topk_backward_operands.h"
#include "cpu/topk/topk_backward_workspace.h"
#include "cpu/work_loop.h"
#include "plan/schedule.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsLists(problem, Direction::kBackward);
}

class PreparedTopKBackward final : public HostPrepared {
 public:
  PreparedTopKBackward(const AttentionProblem& problem,
                       const DeviceInfo& device, WorkspaceLayout& layout)
      : HostPrepared(problem, kShortGradGflops),
        dots(TopKBackwardDots(problem)),
        tiling(
            TopKBackwardTilingOf(problem, device, dots == PairDots::kMatrices)),
        workspace(ReserveTopKBackward(problem, tiling, device.workers, layout,
                                      dots == PairDots::kMatrices)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    TileShape shape;
    shape.rows = problem().group();
    shape.cols = tiling.step_keys;
    return flashacl::Describe(Schedule(), shape);
  }

  Balance Predict(int64_t workers) const override;

  const PairDots dots;  // kNone where operands are no pairs
  const TopKBackwardTiling tiling;
  const TopKBackwardWorkspace workspace;
};

// One run.
class Launch {
 public:
  Launch(const PreparedTopKBackward& prepared, const Bindings& bindings,
         std::byte* memory, Workers& workers)
      : prepared_(prepared),
        operands_(prepared.problem(), bindings, prepared.tiling),
        memory_(memory),
        workers_(workers) {}

  void Run() const;

 private:
  // Some positions of a batch, and the split of their lists that is next.
  struct Stage {
    int64_t number = 0;
    int64_t split = 0;
    Range positions;

    Range PositionsOf(const TopKBackwardSequenceHead& head) const {
      return {std::max(head.positions.first, positions.first),
              std::min(head.positions.last, positions.last)};
    }
  };
  // What one worker adds to: the rows of a kv block, the channels of a d block.
  struct DkvItem {
    const TopKBackwardSequenceHead* sequence_head;
    int64_t kv_block;
    int64_t d_block;
  };

  void RunBatch(const TopKBackwardBatch& batch) const;
  Stage StageAt(const TopKBackwardBatch& batch, int64_t number) const;
  void ListDkvItems(const TopKBackwardBatch& batch, const Stage& stage,
                    RunVector<DkvItem>& items) const;
  void ComputeDq(const TopKBackwardBatch& batch, const Stage& stage,
                 int64_t position, int64_t worker) const;
  // What a position adds to an item's sums.
  DkvArgs ArgsOf(const Stage& stage, const DkvItem& item,
                 int64_t position) const;
  // Prefetches the sums of the item that the worker has next, if any.
  void AddDkv(const Stage& stage, const DkvItem& item,
              const DkvItem* next) const;
  void ClearSums(const TopKBackwardBatch& batch) const;
  void StoreSums(const TopKBackwardBatch& batch) const;

  // Calls body(rows) for some of `count` rows at a time, on all workers.
  template <typename Body>
  void ForRows(int64_t count, Body body) const;

  SavedPds SavedAt(const Stage& stage, int64_t position) const {
    return workspace_.saved.At(
        memory_, stage.number % 2 * tiling_.stage_positions + position -
                     stage.positions.first);
  }
  float* SumsAt(int64_t d_block, int64_t row) const {
    return workspace_.Sums(memory_, d_block) + row * tiling_.d_block_channels;
  }
  std::span<float> SumsOf(const DkvItem& item) const;

  const PreparedTopKBackward& prepared_;
  const TopKBackwardTiling& tiling_ = prepared_.tiling;
  const TopKBackwardWorkspace& workspace_ = prepared_.workspace;
  const TopKBackwardOperands operands_;
  const TopKBackwardKernels kernels_ = TopKBackward();
  std::byte* const memory_;
  Workers& workers_;
};

void Launch::Run() const {
  operands_.forward().ClearUnownedGradients(false);
  for (const TopKBackwardBatch& batch : operands_.Batches()) RunBatch(batch);
}

void Launch::RunBatch(const TopKBackwardBatch& batch) const {
  ClearSums(batch);
  const int64_t stages =
      CeilDiv(batch.positions(), tiling_.stage_positions) * tiling_.num_splits;
  Stage before;
  RunVector<DkvItem> dkv_items;  // of the stage before
  // The last stage has no positions left, only the items of the one before.
  for (int64_t n = 0; n <= stages; ++n) {
    const Stage stage = StageAt(batch, n);
    const int64_t positions = stage.positions.size();
    const int64_t count = positions + static_cast<int64_t>(dkv_items.size());
    const auto dkv_item = [&](int64_t number) {
      return &dkv_items[static_cast<size_t>(number - positions)];
    };
    const auto work = [&](int64_t worker, auto take) {
      int64_t item = take();
      for (; item < positions; item = take()) {
        ComputeDq(batch, stage, stage.positions.first + item, worker);
      }
      while (item < count) {
        const int64_t next = take();
        AddDkv(before, *dkv_item(item),
               next < count ? dkv_item(next) : nullptr);
        item = next;
      }
    };
    ForEachWorker(workers_, workspace_.score.count(), count, work);
    ListDkvItems(batch, stage, dkv_items);
    before = stage;
  }
  StoreSums(batch);
}

Launch::Stage Launch::StageAt(const TopKBackwardBatch& batch,
                              int64_t number) const {
  const int64_t first = number / tiling_.num_splits * tiling_.stage_positions;
  return {
      number,
      number % tiling_.num_splits,
      {first, std::min(first + tiling_.stage_positions, batch.positions())}};
}

void Launch::ListDkvItems(const TopKBackwardBatch& batch, const Stage& stage,
                          RunVector<DkvItem>& items) const {
  items.clear();
  for (const TopKBackwardSequenceHead& head : batch.sequence_heads) {
    if (stage.PositionsOf(head).empty()) continue;
    const int64_t kv_blocks = CeilDiv(head.rows.size(), tiling_.kv_block_rows);
    for (int64_t kv_block = 0; kv_block < kv_blocks; ++kv_block) {
      for (int64_t d_block = 0; d_block < tiling_.d_blocks(); ++d_block) {
        items.push_back({&head, kv_block, d_block});
      }
    }
  }
}

void Launch::ComputeDq(const TopKBackwardBatch& batch, const Stage& stage,
                       int64_t position, int64_t worker) const {
  TopKBackwardDqItem item = operands_.DqItemOf(
      batch.SequenceHeadOf(position).OwnerOf(position), stage.split,
      {workspace_.score.At(memory_, worker),
       workspace_.scratch.At(memory_, worker), SavedAt(stage, position),
       workspace_.GradQuery(memory_, position - stage.positions.first)});
  // Rows that are nowhere have no format.
  FLASHACL_DCHECK(item.count == 0 || prepared_.dots == PairDots::kNone ||
                  ArePairs(item.scores, item.grad_rows));
  item.scores.dots = prepared_.dots;
  // Values that lie where keys do would be followed by more channels, which
  // matrices would take in.
  if (item.scores.dots == PairDots::kMatrices &&
      prepared_.problem().v_dim % kMatrixNumbers != 0) {
    item.scores.keys.NameSharedValues();
  }
  kernels_.differentiate(item);
}

std::span<float> Launch::SumsOf(const DkvItem& item) const {
  const Range rows = item.sequence_head->rows;
  const int64_t first = rows.first + item.kv_block * tiling_.kv_block_rows;
  const int64_t count = std::min(tiling_.kv_block_rows, rows.last - first);
  return {SumsAt(item.d_block, first),
          static_cast<size_t>(count * tiling_.d_block_channels)};
}

DkvArgs Launch::ArgsOf(const Stage& stage, const DkvItem& item,
                       int64_t position) const {
  const AttentionProblem& problem = prepared_.problem();
  const SavedPds saved = SavedAt(stage, position);
  const Range keys = saved.KeysOf(item.kv_block);
  const bool of_values = tiling_.OfValues(item.d_block);
  const int64_t channel = tiling_.FirstChannelOf(item.d_block);
  const int64_t dim = of_values ? problem.v_dim : problem.score_dim();
  const bool adds_values = of_values || problem.kv.value_is_key;
  DkvArgs args;
  args.count = keys.size();
  args.heads = problem.group();
  args.head_stride = tiling_.head_stride;
  args.channels = std::min(tiling_.d_block_channels, dim - channel);
  args.value_channels = adds_values ? problem.v_dim - channel : 0;
  args.columns = saved.columns + keys.first;
  args.probs = saved.probs + keys.first * args.head_stride;
  args.grad_scores = saved.grad_scores + keys.first * args.head_stride;
  args.channel_pairs = SavesPairs(prepared_.dots);
  args.query = of_values ? nullptr : saved.query + args.WordsOf(channel);
  args.grad_out = saved.grad_out + args.WordsOf(channel);
  args.sums = SumsAt(item.d_block, item.sequence_head->rows.first);
  args.sum_stride = tiling_.d_block_channels;
  if (!tiling_.packs_words) return args;
  const int64_t head_pairs = RoundUp(args.heads, kHeadBlock) / 2;
  args.first = keys.first;
  args.step_keys = tiling_.step_keys;
  args.is_words = saved.is_words;
  args.query_pairs = saved.query_pairs + channel * head_pairs;
  args.grad_out_pairs = saved.grad_out_pairs + channel * head_pairs;
  return args;
}

// Whole lines of some floats: these of `count` parts.
std::span<const float> LinesOf(std::span<const float> floats, Range parts,
                               int64_t count) {
  const auto lines = CeilDiv(static_cast<int64_t>(floats.size()), kLineFloats);
  const auto at = [&](int64_t part) {
    return std::min(static_cast<size_t>(lines * part / count * kLineFloats),
                    floats.size());
  };
  return floats.subspan(at(parts.first), at(parts.last) - at(parts.first));
}

// What AddToKeys reads of a position: streams that go on elsewhere with every
// position, too short for a processor to see what comes next. That of words has
// not been measured, and takes others.
void AddOperands(const DkvArgs& args, PrefetchSpans& spans) {
  if (args.count == 0 || args.is_words != nullptr) return;
  const int64_t probs = args.count * args.head_stride;
  if (args.value_channels > 0) {
    spans.Add(args.probs, probs);
    spans.Add(args.grad_out,
              args.WordsOf(std::min(args.channels, args.value_channels)));
  }
  if (args.query != nullptr) {
    spans.Add(args.grad_scores, probs);
    spans.Add(args.query, args.WordsOf(args.channels));
  }
}

void Launch::AddDkv(const Stage& stage, const DkvItem& item,
                    const DkvItem* next) const {
  std::span<const float> next_sums;
  if (next != nullptr) next_sums = SumsOf(*next);
  const Range positions = stage.PositionsOf(*item.sequence_head);
  // The next position, from `n` on, that lists keys of the kv block.
  const auto with_keys = [&](int64_t n) {
    while (n < positions.last &&
           SavedAt(stage, n).KeysOf(item.kv_block).empty()) {
      ++n;
    }
    return n;
  };
  Range done{0, 0};  // parts of the next sums, one for each position
  for (int64_t n = with_keys(positions.first); n < positions.last;) {
    DkvArgs args = ArgsOf(stage, item, n);
    n = with_keys(n + 1);
    if (n < positions.last) {
      AddOperands(ArgsOf(stage, item, n), args.prefetch);
    } else if (next != nullptr) {
      const Range others = stage.PositionsOf(*next->sequence_head);
      AddOperands(ArgsOf(stage, *next, others.first), args.prefetch);
    }
    done = {done.last, n - positions.first};
    args.prefetch.Add(LinesOf(next_sums, done, positions.size()));
    kernels_.add_to_keys(args);
  }
}

template <typename Body>
void Launch::ForRows(int64_t count, Body body) const {
  constexpr int64_t kRows = 64;
  workers_.ForEach(CeilDiv(count, kRows), [&](int64_t n) {
    body(Range{n * kRows, std::min((n + 1) * kRows, count)});
  });
}

void Launch::ClearSums(const TopKBackwardBatch& batch) const {
  ForRows(batch.rows(), [&](Range rows) {
    for (int64_t d_block = 0; d_block < tiling_.d_blocks(); ++d_block) {
      std::fill_n(SumsAt(d_block, rows.first),
                  rows.size() * tiling_.d_block_channels, 0.0f);
    }
  });
}

void Launch::StoreSums(const TopKBackwardBatch& batch) const {
  const auto store_row = [&](const TopKBackwardSequenceHead& head,
                             int64_t column, int64_t d_block) {
    const float* const sums = SumsAt(d_block, head.rows.first + column);
    operands_.ForPieces(head, column, d_block,
                        [&](const ElementFormat& format, int64_t first,
                            int64_t count, std::byte* to) {
                          kernels_.store_row(format, sums + first, count, to);
                        });
  };
  for (const TopKBackwardSequenceHead& head : batch.sequence_heads) {
    ForRows(head.rows.size(), [&](Range columns) {
      for (int64_t d_block = 0; d_block < tiling_.d_blocks(); ++d_block) {
        for (int64_t j = columns.first; j < columns.last; ++j) {
          store_row(head, j, d_block);
        }
      }
    });
  }
}

// Lists are taken to be as long as they may be, and their keys to be spread
// evenly over kv blocks.
Balance PreparedTopKBackward::Predict(int64_t workers) const {
  if (!SequencesAreKnown(problem())) return {};
  Rehearsal rehearsal(std::min(workers, workspace.score.count()));
  const Bindings nothing;
  const TopKBackwardOperands operands(problem(), nothing, tiling);
  const int64_t listed = MaxListedKeys(problem());
  const auto heads = static_cast<double>(problem().group());
  const auto channels = static_cast<double>(problem().score_dim());
  const auto v_dim = static_cast<double>(problem().v_dim);
  for (const TopKBackwardBatch& batch : operands.Batches()) {
    const int64_t parts = CeilDiv(batch.positions(), tiling.stage_positions);
    double added = 0;  // keys of positions whose gradients are next
    for (int64_t n = 0; n <= parts * tiling.num_splits; ++n) {
      const int64_t first = n / tiling.num_splits * tiling.stage_positions;
      const int64_t last =
          std::min(first + tiling.stage_positions, batch.positions());
      double keys_of_stage = 0;
      for (int64_t p = first; p < last; ++p) {
        const int64_t seen = std::min(
            listed, SeenKeys(problem(), batch.SequenceHeadOf(p).OwnerOf(p)));
        const auto keys = static_cast<double>(std::clamp<int64_t>(
            seen - n % tiling.num_splits * tiling.split_keys, 0,
            tiling.split_keys));
        keys_of_stage += keys;
        rehearsal.Take(keys * (heads * (2 * channels + v_dim) +
                               kKeyLoadCost * (channels + v_dim)));
      }
      const int64_t items = tiling.kv_blocks * tiling.d_blocks();
      for (int64_t item = 0; item < items && added > 0; ++item) {
        rehearsal.Take(added * heads * (channels + v_dim) /
                       static_cast<double>(items));
      }
      rehearsal.Meet();
      added = keys_of_stage;
    }
  }
  return rehearsal.result();
}

Status PreparedTopKBackward::Run(const Bindings& bindings, std::byte* memory,
                                 Workers& workers) const {
  Launch(*this, bindings, memory, workers).Run();
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKBackward{
    .name = "cpu/backward/topk",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedTopKBackward>};

}  // namespace flashacl
