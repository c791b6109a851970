// SPDX-License-Identifier: Apache-2.0
// Batches of many rows and few: two lists of tiles, and workers that start with
// either.
#include <algorithm>
#include <array>
#include <string>

#include "base/str.h"
#include "cpu/decode/decode_tiles.h"
#include "cpu/decode/few_rows.h"
#include "cpu/forward/forward_tiles.h"
#include "cpu/implementations.h"
#include "cpu/tile_costs.h"
#include "cpu/tuning.h"
#include "cpu/work_loop.h"
#include "plan/implementation.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

// Query positions of sequences that would go to cpu/decode alone, and of
// others.
Range FewRows(const AttentionProblem& problem, const DeviceInfo& device) {
  return {1, MostFewRows(problem, device) / problem.group() + 1};
}
Range ManyRows(const AttentionProblem& problem, const DeviceInfo& device) {
  return {FewRows(problem, device).last, TileShape::kAnyRows.last};
}

Status Supports(const AttentionProblem& problem, const DeviceInfo& device) {
  FLASHACL_RETURN_IF_ERROR(SupportsFewRows(problem, device));
  const int64_t most = MostFewRows(problem, device);
  if (PackedRowsOf(problem, FewRows(problem, device)).all == 0) {
    return Unsupported("no sequence has at most {} packed rows per kv head",
                       most);
  }
  if (PackedRowsOf(problem, ManyRows(problem, device)).all == 0) {
    return Unsupported("no sequence has more than {} packed rows per kv head",
                       most);
  }
  return {};
}

class PreparedMixed final : public HostPrepared {
 public:
  PreparedMixed(const AttentionProblem& problem, const DeviceInfo& device,
                WorkspaceLayout& layout)
      : HostPrepared(problem, kShortGflops),
        workers_(device.workers),
        many_(problem, device, ManyRows(problem, device), layout),
        few_(problem, device, FewRows(problem, device), layout),
        splits_(ReserveSplits(problem, SplitRows(), layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return Str("{}; of few rows {}",
               flashacl::Describe(many_.schedule(), many_.shape()),
               flashacl::Describe(few_.schedule(), few_.shape()));
  }

  Balance Predict(int64_t workers) const override;

 private:
  // Of all splits together.
  int64_t SplitRows() const;

  const int64_t workers_;
  const ForwardTiles many_;
  const DecodeTiles few_;
  const Region<float> splits_;  // those of many rows, then those of few
};

int64_t PreparedMixed::SplitRows() const {
  if (SequencesAreKnown(problem())) {
    return many_.schedule().split_rows() + few_.schedule().split_rows();
  }
  // A sequence is of one kind.
  const std::array<TileShape, 2> kinds = {many_.shape(), few_.shape()};
  return MaxSplitRows(problem(), kinds);
}

// As Run hands them out.
Balance PreparedMixed::Predict(int64_t workers) const {
  if (!SequencesAreKnown(problem())) return {};
  const TileCosts costs(problem());
  Rehearsal rehearsal(std::min(workers, workers_));
  const auto many = AttendPieces(costs, many_.schedule(), many_.piece());
  const auto few = AttendPieces(costs, few_.schedule(), few_.piece());
  size_t next_many = 0, next_few = 0;
  while (next_many < many.size() || next_few < few.size()) {
    rehearsal.TakeWith([&](Rehearsal::Worker& worker) {
      const bool takes_many =
          next_few == few.size() ||
          (worker.index % 2 == 0 && next_many < many.size());
      worker.Work(takes_many ? many[next_many++] : few[next_few++]);
    });
  }
  rehearsal.Meet();
  for (const Schedule* each : {&many_.schedule(), &few_.schedule()}) {
    for (const double cost : CombinePieces(costs, *each)) {
      rehearsal.Combine(cost);
    }
  }
  return rehearsal.result();
}

// Workers in turn begin with many rows and with few: these wait for memory,
// which those leave alone. None waits until both lists are done.
Status PreparedMixed::Run(const Bindings& bindings, std::byte* memory,
                          Workers& workers) const {
  const ForwardOperands operands(problem(), bindings, many_.shape().cols);
  operands.ClearUnownedRows();
  float* const splits = splits_.In(memory).data();
  const ForwardTiles::Launch many(many_, operands, memory, splits);
  const DecodeTiles::Launch few(
      few_, operands, memory,
      splits + many.schedule().split_rows() * (problem().v_dim + 2));
  const int64_t many_count = many.schedule().count();
  const int64_t few_count = few.schedule().count();
  const auto for_each = [&](auto work_on_many, auto work_on_few) {
    WorkList many_list(many_count), few_list(few_count);
    workers.ForEach(std::min(workers_, many_count + few_count),
                    [&](int64_t worker) {
                      const auto take_many = [&] { return many_list.Take(); };
                      const auto take_few = [&] { return few_list.Take(); };
                      if (worker % 2 == 0) work_on_many(worker, take_many);
                      work_on_few(worker, take_few);
                      work_on_many(worker, take_many);
                    });
  };
  for_each([&](int64_t worker, auto take) { many.Attend(worker, take); },
           [&](int64_t worker, auto take) { few.Attend(worker, take); });
  if (std::max(many.schedule().num_splits(), few.schedule().num_splits()) > 1) {
    for_each([&](int64_t worker, auto take) { many.Combine(worker, take); },
             [&](int64_t worker, auto take) { few.Combine(worker, take); });
  }
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuMixed{.name = "cpu/mixed",
                               .supports = cpu::Supports,
                               .prepare = MakePrepared<cpu::PreparedMixed>};

}  // namespace flashacl
