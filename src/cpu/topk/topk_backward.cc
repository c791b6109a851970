// SPDX-License-Identifier: Apache-2.0
// Wave by wave of sequences, round by round of positions: workers make the
// records of one chunk while they add those of the chunk before to the sums.
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
GradCut CutOf(const Plan& plan) {
  GradCut cut = CutGradients(plan.problem, {});
  cut.step = plan.shape.cols;
  return cut;
}

void Prepare(const DeviceInfo& device, Plan& plan) {
  const GradCut cut = CutGradients(plan.problem, device);
  plan.shape.cols = cut.step;
  plan.shape.rows = plan.problem.group();
  plan.slots = device.workers;
  GradLayout(plan.problem, CutOf(plan), plan.slots, plan.workspace);
}

// Memory that is asked for bit by bit, for writing, ahead of its use.
struct Sweep {
  const float* first;
  int64_t floats;

  void Prefetch(int64_t share, int64_t shares) const {
    constexpr int64_t kLine = 16;
    const int64_t lines = CeilDiv(floats, kLine);
    const int64_t last = lines * (share + 1) / shares;
    for (int64_t n = lines * share / shares; n < last; ++n) {
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
        kernels_(GatheredBackward()),
        workspace_(workspace),
        workers_(workers) {}

  void Run();

 private:
  // Some positions of a wave, and the part of their lists that is their turn.
  struct Round {
    const GradWave* wave = nullptr;
    int64_t number = 0;
    int64_t part = 0;
    Range positions;
  };
  // A bucket and a slice of one unit of a round.
  struct Share {
    const GradUnit* unit = nullptr;
    int64_t bucket = 0;
    int64_t slice = 0;
  };

  static GradPlace PlaceOf(const Plan& plan, const GradCut& cut) {
    WorkspaceLayout layout;
    return GradLayout(plan.problem, cut, plan.slots, layout);
  }

  void Wave(const GradWave& wave);
  Round RoundOf(const GradWave& wave, int64_t number) const;
  std::vector<Share> SharesOf(const Round& round) const;
  void Differentiate(const Round& round, int64_t position, int64_t slot) const;
  // Asks for the sums of the share behind it, if there is one.
  void Add(const Round& round, const Share& share, const Share* behind) const;
  float* SumsOf(const Share& share) const;
  int64_t RowsOf(const Share& share) const {
    return std::min(cut_.bucket_rows,
                    share.unit->rows.size() - share.bucket * cut_.bucket_rows);
  }
  void ClearSums(const GradWave& wave) const;
  void StoreSums(const GradWave& wave) const;

  int64_t RecordOf(const Round& round, int64_t position) const {
    return round.number % 2 * cut_.positions + position - round.positions.first;
  }

  const GradCut cut_;
  const GradPlace place_;
  const GradRun run_;
  const GatheredBackwardKernels kernels_;
  std::byte* const workspace_;
  Workers& workers_;
};

void Backward::Run() {
  run_.ClearRowsOfNobody();
  for (const GradWave& wave : run_.Waves()) Wave(wave);
}

Backward::Round Backward::RoundOf(const GradWave& wave, int64_t number) const {
  const int64_t first = number / cut_.parts * cut_.positions;
  return {&wave,
          number,
          number % cut_.parts,
          {first, std::min(first + cut_.positions, wave.positions())}};
}

void Backward::Wave(const GradWave& wave) {
  ClearSums(wave);
  const int64_t rounds = CeilDiv(wave.positions(), cut_.positions) * cut_.parts;
  std::vector<Share> shares;
  for (int64_t n = 0; n <= rounds; ++n) {
    const Round round = RoundOf(wave, n);
    const Round before = RoundOf(wave, n - 1);
    const int64_t positions = n < rounds ? round.positions.size() : 0;
    const int64_t count = positions + static_cast<int64_t>(shares.size());
    ForEachSlot(workers_, place_.slots, count, [&](int64_t slot, auto take) {
      int64_t item = take();
      while (item < count) {
        if (item < positions) {
          Differentiate(round, round.positions.first + item, slot);
          item = take();
          continue;
        }
        const int64_t next = take();
        const Share* const shares_at = shares.data() - positions;
        Add(before, shares_at[item], next < count ? shares_at + next : nullptr);
        item = next;
      }
    });
    if (n < rounds) shares = SharesOf(round);
  }
  StoreSums(wave);
}

std::vector<Backward::Share> Backward::SharesOf(const Round& round) const {
  std::vector<Share> shares;
  for (const GradUnit& unit : round.wave->units) {
    const Range both{std::max(unit.positions.first, round.positions.first),
                     std::min(unit.positions.last, round.positions.last)};
    if (both.empty()) continue;
    const int64_t buckets = CeilDiv(unit.rows.size(), cut_.bucket_rows);
    for (int64_t bucket = 0; bucket < buckets; ++bucket) {
      for (int64_t slice = 0; slice < cut_.slices(); ++slice) {
        shares.push_back({&unit, bucket, slice});
      }
    }
  }
  return shares;
}

void Backward::Differentiate(const Round& round, int64_t position,
                             int64_t slot) const {
  const int64_t record = RecordOf(round, position);
  const GradUnit& unit = round.wave->UnitOf(position);
  GradItem item = run_.ItemOf(unit, position, place_.Scratch(workspace_, slot));
  item.record = place_.Record(workspace_, record);
  item.grad_query =
      place_.GradQuery(workspace_, position - round.positions.first);
  item.starts = round.part == 0;
  item.ends = round.part + 1 == cut_.parts;
  run_.ListColumns(unit, position, round.part,
                   place_.BucketEnds(workspace_, record), item);
  kernels_.differentiate(item);
}

float* Backward::SumsOf(const Share& share) const {
  const int64_t row = share.unit->rows.first + share.bucket * cut_.bucket_rows;
  return place_.Sums(workspace_, share.slice) + row * cut_.slice_channels;
}

void Backward::Add(const Round& round, const Share& share,
                   const Share* behind) const {
  const GradShape& shape = run_.shape();
  const bool values = share.slice >= cut_.key_slices;
  const bool shared = place_.value_stride == 0;
  const int64_t first = (values ? share.slice - cut_.key_slices : share.slice) *
                        cut_.slice_channels;
  KeyGradItem item;
  item.heads = shape.heads;
  item.head_stride = shape.head_stride;
  item.sum_stride = cut_.slice_channels;
  item.sums = SumsOf({share.unit, 0, share.slice});
  item.channels = std::min(cut_.slice_channels,
                           (values ? shape.v_dim : shape.channels()) - first);
  item.value_channels = values || shared ? shape.v_dim - first : 0;
  const Range positions{
      std::max(share.unit->positions.first, round.positions.first),
      std::min(share.unit->positions.last, round.positions.last)};
  Sweep sweep{nullptr, 0};
  if (behind != nullptr) {
    sweep = {SumsOf(*behind), RowsOf(*behind) * cut_.slice_channels};
  }
  for (int64_t n = positions.first; n < positions.last; ++n) {
    sweep.Prefetch(n - positions.first, positions.size());
    const int64_t number = RecordOf(round, n);
    const int64_t* const ends = place_.BucketEnds(workspace_, number);
    const int64_t from = share.bucket == 0 ? 0 : ends[share.bucket - 1];
    item.count = ends[share.bucket] - from;
    if (item.count == 0) continue;
    const GradRecord record = place_.Record(workspace_, number);
    item.columns = record.columns + from;
    item.weights = record.weights + from * shape.head_stride;
    item.grad_scores = record.grad_scores + from * shape.head_stride;
    item.query = values ? nullptr : record.query + first * shape.heads;
    item.grad_out = record.grad_out + first * shape.heads;
    kernels_.add_to_keys(item);
  }
}

constexpr int64_t kRowsOfShare = 64;  // that one worker clears or stores

void Backward::ClearSums(const GradWave& wave) const {
  const int64_t pieces = CeilDiv(wave.rows(), kRowsOfShare);
  workers_.ForEach(pieces, [&](int64_t piece) {
    const int64_t first = piece * kRowsOfShare;
    const int64_t rows = std::min(kRowsOfShare, wave.rows() - first);
    for (int64_t slice = 0; slice < cut_.slices(); ++slice) {
      std::fill_n(place_.Sums(workspace_, slice) + first * cut_.slice_channels,
                  rows * cut_.slice_channels, 0.0f);
    }
  });
}

void Backward::StoreSums(const GradWave& wave) const {
  for (const GradUnit& unit : wave.units) {
    const int64_t pieces = CeilDiv(unit.rows.size(), kRowsOfShare);
    workers_.ForEach(pieces, [&](int64_t piece) {
      const int64_t first = piece * kRowsOfShare;
      const int64_t last = std::min(first + kRowsOfShare, unit.rows.size());
      for (int64_t slice = 0; slice < cut_.slices(); ++slice) {
        for (int64_t column = first; column < last; ++column) {
          const float* const sums =
              place_.Sums(workspace_, slice) +
              (unit.rows.first + column) * cut_.slice_channels;
          run_.ForPieces(unit, column, slice,
                         [&](const RowFormat& format, int64_t from,
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

const Implementation kCpuGatheredBackward{.name = "cpu/backward/gathered",
                                          .supports = cpu::Supports,
                                          .prepare = cpu::Prepare,
                                          .launch = cpu::Launch};

}  // namespace flashacl
