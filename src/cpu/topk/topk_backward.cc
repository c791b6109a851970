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
#include "plan/schedule.h"

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
      : HostPrepared(problem),
        tiling(TopKBackwardTilingOf(problem, device)),
        workers(device.workers),
        workspace(ReserveTopKBackward(problem, tiling, workers, layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& some) const override;

  std::string Describe() const override {
    TileShape shape;
    shape.rows = problem().group();
    shape.cols = tiling.step;
    return flashacl::Describe(Schedule(), shape);
  }

  const TopKBackwardTiling tiling;
  const int64_t workers;
  const TopKBackwardWorkspace workspace;
};

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
  Backward(const PreparedTopKBackward& prepared, const Bindings& bindings,
           std::byte* memory, Workers& workers)
      : tiling_(prepared.tiling),
        worker_count_(prepared.workers),
        workspace_(prepared.workspace),
        operands_(prepared.problem(), bindings, tiling_),
        value_is_key_(prepared.problem().kv.value_is_key),
        kernels_(TopKBackward()),
        memory_(memory),
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

  void RunBatch(const TopKBackwardBatch& batch);
  TopKBackwardStage StageOf(const TopKBackwardBatch& batch,
                            int64_t number) const;
  std::vector<TopKBackwardDkvItem> DkvItemsOf(
      const TopKBackwardStage& stage) const;
  void Differentiate(const TopKBackwardStage& stage, int64_t position,
                     int64_t worker) const;
  // Prefetches the sums of the item after it, if there is one.
  void Add(const TopKBackwardStage& stage, const TopKBackwardDkvItem& dkv_item,
           const TopKBackwardDkvItem* next) const;
  float* SumsOf(const TopKBackwardDkvItem& dkv_item) const;
  int64_t RowsOf(const TopKBackwardDkvItem& dkv_item) const {
    return std::min(tiling_.kv_block_rows,
                    dkv_item.sequence_head->rows.size() -
                        dkv_item.kv_block * tiling_.kv_block_rows);
  }
  void ClearSums(const TopKBackwardBatch& batch) const;
  void StoreSums(const TopKBackwardBatch& batch) const;

  int64_t SavedIndexOf(const TopKBackwardStage& stage, int64_t position) const {
    return stage.number % 2 * tiling_.positions + position -
           stage.positions.first;
  }

  const TopKBackwardTiling& tiling_;
  const int64_t worker_count_;
  const TopKBackwardWorkspace& workspace_;
  const TopKBackwardOperands operands_;
  const bool value_is_key_;
  const TopKBackwardKernels kernels_;
  std::byte* const memory_;
  Workers& workers_;
};

void Backward::Run() {
  operands_.ClearUnownedRows();
  for (const TopKBackwardBatch& batch : operands_.Batches()) RunBatch(batch);
}

Backward::TopKBackwardStage Backward::StageOf(const TopKBackwardBatch& batch,
                                              int64_t number) const {
  const int64_t first = number / tiling_.num_splits * tiling_.positions;
  return {&batch,
          number,
          number % tiling_.num_splits,
          {first, std::min(first + tiling_.positions, batch.positions())}};
}

void Backward::RunBatch(const TopKBackwardBatch& batch) {
  ClearSums(batch);
  const int64_t rounds =
      CeilDiv(batch.positions(), tiling_.positions) * tiling_.num_splits;
  std::vector<TopKBackwardDkvItem> dkv_items;
  for (int64_t n = 0; n <= rounds; ++n) {
    const TopKBackwardStage stage = StageOf(batch, n);
    const TopKBackwardStage before = StageOf(batch, n - 1);
    const int64_t positions = n < rounds ? stage.positions.size() : 0;
    const int64_t count = positions + static_cast<int64_t>(dkv_items.size());
    ForEachWorker(
        workers_, worker_count_, count, [&](int64_t worker, auto take) {
          int64_t item = take();
          while (item < count) {
            if (item < positions) {
              Differentiate(stage, stage.positions.first + item, worker);
              item = take();
              continue;
            }
            const int64_t next = take();
            const TopKBackwardDkvItem* const shares_at =
                dkv_items.data() - positions;
            Add(before, shares_at[item],
                next < count ? shares_at + next : nullptr);
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
        CeilDiv(sequence_head.rows.size(), tiling_.kv_block_rows);
    for (int64_t kv_block = 0; kv_block < kv_blocks; ++kv_block) {
      for (int64_t d_block = 0; d_block < tiling_.d_blocks(); ++d_block) {
        dkv_items.push_back({&sequence_head, kv_block, d_block});
      }
    }
  }
  return dkv_items;
}

void Backward::Differentiate(const TopKBackwardStage& stage, int64_t position,
                             int64_t worker) const {
  const int64_t saved = SavedIndexOf(stage, position);
  const TopKBackwardSequenceHead& sequence_head =
      stage.batch->SequenceHeadOf(position);
  TopKBackwardDqItem item = operands_.ItemOf(
      sequence_head, position, workspace_.scratch.At(memory_, worker));
  item.saved = workspace_.saved.At(memory_, saved);
  item.grad_query =
      workspace_.GradQuery(memory_, position - stage.positions.first);
  item.starts = stage.split == 0;
  item.ends = stage.split + 1 == tiling_.num_splits;
  operands_.ListKeys(sequence_head, position, stage.split, item);
  kernels_.differentiate(item);
}

float* Backward::SumsOf(const TopKBackwardDkvItem& dkv_item) const {
  const int64_t row = dkv_item.sequence_head->rows.first +
                      dkv_item.kv_block * tiling_.kv_block_rows;
  return workspace_.Sums(memory_, dkv_item.d_block) +
         row * tiling_.d_block_channels;
}

void Backward::Add(const TopKBackwardStage& stage,
                   const TopKBackwardDkvItem& dkv_item,
                   const TopKBackwardDkvItem* next) const {
  const TopKBackwardParams& shape = operands_.shape();
  const bool values = dkv_item.d_block >= tiling_.key_d_blocks;
  const int64_t first =
      (values ? dkv_item.d_block - tiling_.key_d_blocks : dkv_item.d_block) *
      tiling_.d_block_channels;
  DkvArgs item;
  item.heads = shape.heads;
  item.head_stride = shape.head_stride;
  item.sum_stride = tiling_.d_block_channels;
  item.sums = SumsOf({dkv_item.sequence_head, 0, dkv_item.d_block});
  item.channels = std::min(tiling_.d_block_channels,
                           (values ? shape.v_dim : shape.channels()) - first);
  item.value_channels = values || value_is_key_ ? shape.v_dim - first : 0;
  const Range positions{
      std::max(dkv_item.sequence_head->positions.first, stage.positions.first),
      std::min(dkv_item.sequence_head->positions.last, stage.positions.last)};
  Sweep sweep{nullptr, 0};
  if (next != nullptr) {
    sweep = {SumsOf(*next), RowsOf(*next) * tiling_.d_block_channels};
  }
  for (int64_t n = positions.first; n < positions.last; ++n) {
    sweep.Prefetch(n - positions.first, positions.size());
    const int64_t number = SavedIndexOf(stage, n);
    const SavedPds saved = workspace_.saved.At(memory_, number);
    const int64_t* const ends = saved.kv_block_ends;
    const int64_t from =
        dkv_item.kv_block == 0 ? 0 : ends[dkv_item.kv_block - 1];
    item.count = ends[dkv_item.kv_block] - from;
    if (item.count == 0) continue;
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
    for (int64_t d_block = 0; d_block < tiling_.d_blocks(); ++d_block) {
      std::fill_n(
          workspace_.Sums(memory_, d_block) + first * tiling_.d_block_channels,
          rows * tiling_.d_block_channels, 0.0f);
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
      for (int64_t d_block = 0; d_block < tiling_.d_blocks(); ++d_block) {
        for (int64_t column = first; column < last; ++column) {
          const float* const sums =
              workspace_.Sums(memory_, d_block) +
              (sequence_head.rows.first + column) * tiling_.d_block_channels;
          operands_.ForPieces(sequence_head, column, d_block,
                              [&](const ElementFormat& format, int64_t from,
                                  int64_t count, std::byte* to) {
                                kernels_.store_row(format, sums + from, count,
                                                   to);
                              });
        }
      }
    });
  }
}

Status PreparedTopKBackward::Run(const Bindings& bindings, std::byte* memory,
                                 Workers& some) const {
  Backward(*this, bindings, memory, some).Run();
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuTopKBackward{
    .name = "cpu/backward/topk",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedTopKBackward>};

}  // namespace flashacl
