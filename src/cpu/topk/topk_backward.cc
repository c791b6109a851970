// SPDX-License-Identifier: Apache-2.0
// RunBatch by batch of sequences, round by round of positions: workers make the
// saved pds of one chunk while they add those of the chunk before to the sums.
#include "cpu/topk/topk_backward.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/support.h"
#include "cpu/topk/topk_backward_kernel.h"
#include "cpu/topk/topk_backward_operands.h"
#include "cpu/topk/topk_backward_workspace.h"
#include "cpu/work_loop.h"
#include "plan/plan.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsLists(problem, Direction::kBackward);
}

// Caches decide how work is cut. A launch must cut as planning did and does not
// know the device, so the plan carries the step, and the rest is the problem's.
TopKBackwardTiling CutOf(const Plan& plan) {
  TopKBackwardTiling cut = TopKBackwardTilingOf(plan.problem, {});
  cut.step = plan.shape.cols;
  return cut;
}

void Prepare(const DeviceInfo& device, Plan& plan) {
  const TopKBackwardTiling cut = TopKBackwardTilingOf(plan.problem, device);
  plan.shape.cols = cut.step;
  plan.shape.rows = plan.problem.group();
  plan.slots = device.workers;
  TopKBackwardLayout(plan.problem, CutOf(plan), plan.slots, plan.workspace);
}

// Memory that is asked for bit by bit, for writing, ahead of its use.
struct Sweep {
  const float* first;
  int64_t floats;

  void Prefetch(int64_t dkv_item, int64_t dkv_items) const {
    constexpr int64_t kLine = 16;
    const int64_t lines = CeilDiv(floats, kLine);
    const int64_t last = lines * (dkv_item + 1) / dkv_items;
    for (int64_t n = lines * dkv_item / dkv_items; n < last; ++n) {
      __builtin_prefetch(first + n * kLine, 1, 2);
    }
  }
};

class Backward {
 public:
  Backward(const Plan& plan, const Bindings& bindings, std::byte* workspace,
           Workers& workers)
      : cut_(CutOf(plan)),
        place_(PlaceOf(plan, cut_)),
        run_(plan.problem, bindings, cut_),
        kernels_(TopKBackward()),
        workspace_(workspace),
        workers_(workers) {}

  void Run();

 private:
  // Some positions of a batch, and the part of their lists that is their turn.
  struct TopKBackwardStage {
    const TopKBackwardBatch* batch = nullptr;
    int64_t number = 0;
    int64_t split = 0;
    Range positions;
  };
  // A kv block and a d block of one unit of a round.
  struct TopKBackwardDkvItem {
    const TopKBackwardSequenceHead* sequence_head = nullptr;
    int64_t kv_block = 0;
    int64_t d_block = 0;
  };

  static TopKBackwardWorkspace PlaceOf(const Plan& plan,
                                       const TopKBackwardTiling& cut) {
    WorkspaceLayout layout;
    return TopKBackwardLayout(plan.problem, cut, plan.slots, layout);
  }

  void RunBatch(const TopKBackwardBatch& batch);
  TopKBackwardStage StageOf(const TopKBackwardBatch& batch,
                            int64_t number) const;
  std::vector<TopKBackwardDkvItem> DkvItemsOf(
      const TopKBackwardStage& stage) const;
  void Differentiate(const TopKBackwardStage& stage, int64_t position,
                     int64_t slot) const;
  // Asks for the sums of the share behind it, if there is one.
  void Add(const TopKBackwardStage& stage, const TopKBackwardDkvItem& dkv_item,
           const TopKBackwardDkvItem* behind) const;
  float* SumsOf(const TopKBackwardDkvItem& dkv_item) const;
  int64_t RowsOf(const TopKBackwardDkvItem& dkv_item) const {
    return std::min(cut_.kv_block_rows,
                    dkv_item.sequence_head->rows.size() -
                        dkv_item.kv_block * cut_.kv_block_rows);
  }
  void ClearSums(const TopKBackwardBatch& batch) const;
  void StoreSums(const TopKBackwardBatch& batch) const;

  int64_t SavedIndexOf(const TopKBackwardStage& stage, int64_t position) const {
    return stage.number % 2 * cut_.positions + position - stage.positions.first;
  }

  const TopKBackwardTiling cut_;
  const TopKBackwardWorkspace place_;
  const TopKBackwardOperands run_;
  const TopKBackwardKernels kernels_;
  std::byte* const workspace_;
  Workers& workers_;
};

void Backward::Run() {
  run_.ClearUnownedRows();
  for (const TopKBackwardBatch& batch : run_.Batches()) RunBatch(batch);
}

Backward::TopKBackwardStage Backward::StageOf(const TopKBackwardBatch& batch,
                                              int64_t number) const {
  const int64_t first = number / cut_.num_splits * cut_.positions;
  return {&batch,
          number,
          number % cut_.num_splits,
          {first, std::min(first + cut_.positions, batch.positions())}};
}

void Backward::RunBatch(const TopKBackwardBatch& batch) {
  ClearSums(batch);
  const int64_t rounds =
      CeilDiv(batch.positions(), cut_.positions) * cut_.num_splits;
  std::vector<TopKBackwardDkvItem> dkv_items;
  for (int64_t n = 0; n <= rounds; ++n) {
    const TopKBackwardStage stage = StageOf(batch, n);
    const TopKBackwardStage before = StageOf(batch, n - 1);
    const int64_t positions = n < rounds ? stage.positions.size() : 0;
    const int64_t count = positions + static_cast<int64_t>(dkv_items.size());
    ForEachWorker(workers_, place_.slots, count, [&](int64_t slot, auto take) {
      int64_t item = take();
      while (item < count) {
        if (item < positions) {
          Differentiate(stage, stage.positions.first + item, slot);
          item = take();
          continue;
        }
        const int64_t next = take();
        const TopKBackwardDkvItem* const shares_at =
            dkv_items.data() - positions;
        Add(before, shares_at[item], next < count ? shares_at + next : nullptr);
        item = next;
      }
    });
    if (n < rounds) dkv_items = DkvItemsOf(stage);
  }
  StoreSums(batch);
}

std::vector<Backward::TopKBackwardDkvItem> Backward::DkvItemsOf(
    const TopKBackwardStage& stage) const {
  std::vector<TopKBackwardDkvItem> dkv_items;
  for (const TopKBackwardSequenceHead& sequence_head :
       stage.batch->sequence_heads) {
    const Range both{
        std::max(sequence_head.positions.first, stage.positions.first),
        std::min(sequence_head.positions.last, stage.positions.last)};
    if (both.empty()) continue;
    const int64_t kv_blocks =
        CeilDiv(sequence_head.rows.size(), cut_.kv_block_rows);
    for (int64_t kv_block = 0; kv_block < kv_blocks; ++kv_block) {
      for (int64_t d_block = 0; d_block < cut_.d_blocks(); ++d_block) {
        dkv_items.push_back({&sequence_head, kv_block, d_block});
      }
    }
  }
  return dkv_items;
}

void Backward::Differentiate(const TopKBackwardStage& stage, int64_t position,
                             int64_t slot) const {
  const int64_t saved = SavedIndexOf(stage, position);
  const TopKBackwardSequenceHead& sequence_head =
      stage.batch->SequenceHeadOf(position);
  TopKBackwardDqItem item =
      run_.ItemOf(sequence_head, position, place_.Scratch(workspace_, slot));
  item.saved = place_.Saved(workspace_, saved);
  item.grad_query =
      place_.GradQuery(workspace_, position - stage.positions.first);
  item.starts = stage.split == 0;
  item.ends = stage.split + 1 == cut_.num_splits;
  run_.ListKeys(sequence_head, position, stage.split,
                place_.KvBlockEnds(workspace_, saved), item);
  kernels_.differentiate(item);
}

float* Backward::SumsOf(const TopKBackwardDkvItem& dkv_item) const {
  const int64_t row = dkv_item.sequence_head->rows.first +
                      dkv_item.kv_block * cut_.kv_block_rows;
  return place_.Sums(workspace_, dkv_item.d_block) +
         row * cut_.d_block_channels;
}

void Backward::Add(const TopKBackwardStage& stage,
                   const TopKBackwardDkvItem& dkv_item,
                   const TopKBackwardDkvItem* behind) const {
  const TopKBackwardParams& shape = run_.shape();
  const bool values = dkv_item.d_block >= cut_.key_d_blocks;
  const bool shared = place_.value_stride == 0;
  const int64_t first =
      (values ? dkv_item.d_block - cut_.key_d_blocks : dkv_item.d_block) *
      cut_.d_block_channels;
  DkvArgs item;
  item.heads = shape.heads;
  item.head_stride = shape.head_stride;
  item.sum_stride = cut_.d_block_channels;
  item.sums = SumsOf({dkv_item.sequence_head, 0, dkv_item.d_block});
  item.channels = std::min(cut_.d_block_channels,
                           (values ? shape.v_dim : shape.channels()) - first);
  item.value_channels = values || shared ? shape.v_dim - first : 0;
  const Range positions{
      std::max(dkv_item.sequence_head->positions.first, stage.positions.first),
      std::min(dkv_item.sequence_head->positions.last, stage.positions.last)};
  Sweep sweep{nullptr, 0};
  if (behind != nullptr) {
    sweep = {SumsOf(*behind), RowsOf(*behind) * cut_.d_block_channels};
  }
  for (int64_t n = positions.first; n < positions.last; ++n) {
    sweep.Prefetch(n - positions.first, positions.size());
    const int64_t number = SavedIndexOf(stage, n);
    const int64_t* const ends = place_.KvBlockEnds(workspace_, number);
    const int64_t from =
        dkv_item.kv_block == 0 ? 0 : ends[dkv_item.kv_block - 1];
    item.count = ends[dkv_item.kv_block] - from;
    if (item.count == 0) continue;
    const SavedPds saved = place_.Saved(workspace_, number);
    item.columns = saved.columns + from;
    item.probs = saved.probs + from * shape.head_stride;
    item.grad_scores = saved.grad_scores + from * shape.head_stride;
    item.query = values ? nullptr : saved.query + first * shape.heads;
    item.grad_out = saved.grad_out + first * shape.heads;
    kernels_.add_to_keys(item);
  }
}

constexpr int64_t kRowsOfShare = 64;  // that one worker clears or stores

void Backward::ClearSums(const TopKBackwardBatch& batch) const {
  const int64_t pieces = CeilDiv(batch.rows(), kRowsOfShare);
  workers_.ForEach(pieces, [&](int64_t piece) {
    const int64_t first = piece * kRowsOfShare;
    const int64_t rows = std::min(kRowsOfShare, batch.rows() - first);
    for (int64_t d_block = 0; d_block < cut_.d_blocks(); ++d_block) {
      std::fill_n(
          place_.Sums(workspace_, d_block) + first * cut_.d_block_channels,
          rows * cut_.d_block_channels, 0.0f);
    }
  });
}

void Backward::StoreSums(const TopKBackwardBatch& batch) const {
  for (const TopKBackwardSequenceHead& sequence_head : batch.sequence_heads) {
    const int64_t pieces = CeilDiv(sequence_head.rows.size(), kRowsOfShare);
    workers_.ForEach(pieces, [&](int64_t piece) {
      const int64_t first = piece * kRowsOfShare;
      const int64_t last =
          std::min(first + kRowsOfShare, sequence_head.rows.size());
      for (int64_t d_block = 0; d_block < cut_.d_blocks(); ++d_block) {
        for (int64_t column = first; column < last; ++column) {
          const float* const sums =
              place_.Sums(workspace_, d_block) +
              (sequence_head.rows.first + column) * cut_.d_block_channels;
          run_.ForPieces(sequence_head, column, d_block,
                         [&](const ElementFormat& format, int64_t from,
                             int64_t count, std::byte* to) {
                           kernels_.store_row(format, sums + from, count, to);
                         });
        }
      }
    });
  }
}

Status Launch(const Plan& plan, const Bindings& bindings, std::byte* workspace,
              Workers& workers) {
  Backward(plan, bindings, workspace, workers).Run();
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKBackward{.name = "cpu/backward/topk",
                                      .supports = cpu::Supports,
                                      .prepare = cpu::Prepare,
                                      .launch = cpu::Launch};

}  // namespace flashacl
