// SPDX-License-Identifier: Apache-2.0
// Cuts a backward problem into tiles of rows, gives each its scratch memory and
// addresses, and leaves the arithmetic to the vector code. A tile owns the
// gradients of its queries; tiles of one kv head add to those of its keys in
// turn.
#include "cpu/backward/backward.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/number.h"
#include "cpu/backward/backward_kernel.h"
#include "cpu/backward/backward_operands.h"
#include "cpu/backward/backward_workspace.h"
#include "cpu/backward/bias_gradient.h"
#include "cpu/backward/ordered_sum.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/support.h"
#include "cpu/work_loop.h"
#include "plan/implementation.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsTiles(problem, Direction::kBackward);
}

class PreparedBackward final : public HostPrepared {
 public:
  PreparedBackward(const AttentionProblem& problem, const DeviceInfo& device,
                   WorkspaceLayout& layout)
      : HostPrepared(problem),
        shape(BackwardTileShape(problem, device)),
        schedule(KnownSchedule(problem, shape)),
        workspace(ReserveBackward(problem, shape, device.workers, layout)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return flashacl::Describe(schedule, shape);
  }

  const TileShape shape;
  const Schedule schedule;  // empty if lengths are on the device
  const BackwardWorkspace workspace;
};

// One run.
class Launcher {
 public:
  Launcher(const PreparedBackward& prepared, const Bindings& bindings,
           std::byte* memory);

  void Run(Workers& workers);

 private:
  // One of those that work at the same time.
  struct Worker {
    int64_t index;
    BackwardTile tile;
  };

  // Calls work(n, worker) for all n in [0, count), begun in this order.
  template <typename Work>
  void ForEach(Workers& workers, int64_t count, Work work);

  void ComputeTiles(Workers& workers);
  void SweepKeys(Workers& workers);

  // `alone`: no other worker computes tiles of the same kv head.
  void Compute(int64_t number, bool alone, Worker& worker);
  void ComputeQueries(int64_t number, BackwardTile& tile);
  void ComputeKeys(const TileGroup& group, Range steps, BackwardTile& tile);
  void ComputeStep(const Tile& cut, BackwardTile& tile, KeyStep& step,
                   FunctionRef<void()> wait);
  void AddToSinks(const Tile& cut, const BackwardTile& tile, int64_t number);
  void StoreSinks();

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  std::byte* memory_;
  const BackwardWorkspace& workspace_;
  BackwardOperands run_;
  const BackwardKernels kernels_ = Backward();
  const RunSchedule run_schedule_;
  const Schedule& schedule_;
  OrderedSum ordered_sum_;
  BiasGradient bias_;
  bool adds_to_bias_;
  std::vector<double> sinks_;  // [tile, head of the group]
};

Launcher::Launcher(const PreparedBackward& prepared, const Bindings& bindings,
                   std::byte* memory)
    : problem_(prepared.problem()),
      bindings_(bindings),
      memory_(memory),
      workspace_(prepared.workspace),
      run_(problem_, bindings, prepared.shape.cols),
      run_schedule_(prepared.schedule, run_.forward(), prepared.shape),
      schedule_(*run_schedule_),
      ordered_sum_(problem_, run_.sequences(), schedule_,
                   {.step_columns = prepared.shape.cols,
                    .interleaved = workspace_.interleaved,
                    .in_flight = workspace_.accumulators}),
      bias_(problem_, bindings, run_.sequences(),
            workspace_.bias_sums.In(memory)),
      adds_to_bias_(bias_.wanted()) {
  run_.shape().row_block = workspace_.row_block;
  run_.shape().value_stride = workspace_.value_stride;
  run_.shape().panel_rows = kernels_.panel_rows;
  if (problem_.has(Slot::kGradSink)) {
    sinks_.resize(static_cast<size_t>(schedule_.count() * problem_.group()));
  }
}

void Launcher::Run(Workers& workers) {
  run_.ClearUnownedRows(ordered_sum_.SomeKeysAreUnseen());
  bias_.Clear();
  BackwardParams& shape = run_.shape();
  const BackwardParams whole = shape;
  if (workspace_.sweeps_twice) shape.wants_key = shape.wants_value = false;
  ComputeTiles(workers);
  bias_.Store(workers);
  StoreSinks();
  if (!workspace_.sweeps_twice || !(whole.wants_key || whole.wants_value))
    return;
  shape = whole;
  shape.wants_query = shape.wants_sink = adds_to_bias_ = false;
  SweepKeys(workers);
}

template <typename Work>
void Launcher::ForEach(Workers& workers, int64_t count, Work work) {
  // Who computes a kv head alone needs a set of sums.
  const int64_t most =
      bias_.shared() && workspace_.accumulators > 0
          ? std::min(workspace_.workers, workspace_.accumulators)
          : workspace_.workers;
  ForEachWorker(workers, most, count, [&](int64_t index, auto take) {
    Worker worker{index, {}};
    workspace_.Fill(memory_, index, worker.tile);
    for (int64_t n = take(); n < count; n = take()) work(n, worker);
  });
}

void Launcher::ComputeTiles(Workers& workers) {
  const auto compute = [&](int64_t number, Worker& worker) {
    if (workspace_.sweeps_twice) {
      ComputeQueries(number, worker.tile);
    } else {
      Compute(number, bias_.shared(), worker);
    }
  };
  if (!bias_.shared()) {
    const std::span<const int64_t> order = ordered_sum_.order();
    return ForEach(workers, schedule_.count(), [&](int64_t n, Worker& worker) {
      compute(order[static_cast<size_t>(n)], worker);
    });
  }
  // Who adds to an element of a bias first must not depend on who works.
  std::vector<std::vector<int64_t>> classes(
      static_cast<size_t>(bias_.classes()));
  for (int64_t n = 0; n < schedule_.count(); ++n) {
    const int64_t own = bias_.ClassOf(schedule_.At(n));
    classes[static_cast<size_t>(own)].push_back(n);
  }
  ForEach(workers, bias_.classes(), [&](int64_t own, Worker& worker) {
    for (const int64_t n : classes[static_cast<size_t>(own)]) {
      compute(n, worker);
    }
  });
}

void Launcher::Compute(int64_t number, bool alone, Worker& worker) {
  BackwardTile& tile = worker.tile;
  const Tile cut = schedule_.At(number);
  const TileGroup& group = ordered_sum_.GroupOf(number);
  const std::vector<Ticket> tickets = ordered_sum_.Of(number);
  const bool summed = group.summed();
  const bool waits = summed && !alone;
  const int64_t set = alone ? worker.index : group.sums;
  run_.FillTile(cut, tile);
  kernels_.start(tile);
  if (waits) ordered_sum_.WaitForSums(group);
  for (int64_t s = 0; s < group.steps; ++s) {
    const Ticket& ticket = tickets[static_cast<size_t>(s)];
    if (ticket.cols.empty()) continue;
    KeyStep step;
    step.cols = ticket.cols;
    step.grad_keys = tile.scratch.grad_keys;
    step.grad_values = tile.scratch.grad_values;
    if (summed) {
      step.grad_keys = workspace_.KeyAccumulator(memory_, set) +
                       ticket.cols.first * workspace_.key_stride;
      step.grad_values = workspace_.ValueAccumulator(memory_, set) +
                         ticket.cols.first * workspace_.value_stride;
    }
    ComputeStep(cut, tile, step, [&] {
      if (waits) ordered_sum_.Wait(group, s, ticket);
      if (ticket.before > 0) return;
      const int64_t keys = ticket.cols.size();
      std::fill_n(step.grad_keys, keys * workspace_.key_stride, 0.0f);
      std::fill_n(step.grad_values, keys * workspace_.value_stride, 0.0f);
    });
    if (ticket.last) kernels_.store(tile, step);
    if (waits) ordered_sum_.Pass(group, s, ticket);
  }
  kernels_.finish(tile);
  AddToSinks(cut, tile, number);
  if (waits) ordered_sum_.Finish(group);
}

// Gradients of queries alone.
void Launcher::ComputeQueries(int64_t number, BackwardTile& tile) {
  const Tile cut = schedule_.At(number);
  run_.FillTile(cut, tile);
  kernels_.start(tile);
  for (int64_t s = 0; s < ordered_sum_.GroupOf(number).steps; ++s) {
    KeyStep step;
    step.cols = ordered_sum_.StepOf(number, s);
    if (step.cols.empty()) continue;
    ComputeStep(cut, tile, step, [] {});
  }
  kernels_.finish(tile);
  AddToSinks(cut, tile, number);
}

void Launcher::SweepKeys(Workers& workers) {
  struct Item {
    const TileGroup& group;
    Range steps;
  };
  std::vector<Item> items;
  for (const TileGroup& group : ordered_sum_.groups()) {
    for (int64_t s = 0; s < group.steps; s += workspace_.swept_steps) {
      items.push_back(
          {group, {s, std::min(s + workspace_.swept_steps, group.steps)}});
    }
  }
  ForEach(workers, static_cast<int64_t>(items.size()),
          [&](int64_t n, Worker& worker) {
            const Item& item = items[static_cast<size_t>(n)];
            ComputeKeys(item.group, item.steps, worker.tile);
          });
}

// Gradients of the keys of some steps alone, from all tiles that see them.
void Launcher::ComputeKeys(const TileGroup& group, Range steps,
                           BackwardTile& tile) {
  const int64_t most = steps.size() * group.step_columns;
  std::fill_n(tile.scratch.grad_keys, most * workspace_.key_stride, 0.0f);
  std::fill_n(tile.scratch.grad_values, most * workspace_.value_stride, 0.0f);
  std::vector<KeyStep> sums(static_cast<size_t>(steps.size()));
  for (int64_t n = group.first; n < group.first + group.tiles; ++n) {
    bool started = false;
    for (int64_t s = steps.first; s < steps.last; ++s) {
      const Range cols = ordered_sum_.StepOf(n, s);
      if (cols.empty()) continue;
      const Tile cut = schedule_.At(n);
      if (!started) {
        run_.FillTile(cut, tile);
        kernels_.start(tile);
      }
      started = true;
      KeyStep& step = sums[static_cast<size_t>(s - steps.first)];
      const int64_t key = (s - steps.first) * group.step_columns;
      step.cols = cols;
      step.grad_keys = tile.scratch.grad_keys + key * workspace_.key_stride;
      step.grad_values =
          tile.scratch.grad_values + key * workspace_.value_stride;
      ComputeStep(cut, tile, step, [] {});
    }
  }
  // Keys that nobody sees are 0 already.
  for (const KeyStep& step : sums) {
    if (!step.cols.empty()) kernels_.store(tile, step);
  }
}

// `wait` returns when it is the tile's turn to add to the step's sums.
void Launcher::ComputeStep(const Tile& cut, BackwardTile& tile, KeyStep& step,
                           FunctionRef<void()> wait) {
  kernels_.load(tile, step);
  const int64_t size = RoundUp(workspace_.row_block, kernels_.panel_rows);
  const int64_t rows = cut.rows.size();
  for (int64_t first = 0; first < rows; first += size) {
    const Range block{first, std::min(first + size, rows)};
    kernels_.softmax(tile, step, block);
    if (adds_to_bias_) bias_.Add(cut, tile, step, block);
    if (first == 0) wait();
    kernels_.add(tile, step, block);
  }
}

// dsink = -sum over rows of psink sum_j p dp; a row that sees nothing adds
// nothing.
void Launcher::AddToSinks(const Tile& cut, const BackwardTile& tile,
                          int64_t number) {
  if (sinks_.empty()) return;
  const int64_t group = problem_.group();
  for (int64_t r = 0; r < cut.rows.size(); ++r) {
    const double sum_p_dp = double{tile.scratch.sum_p_dp[r]};
    if (sum_p_dp == 0) continue;
    const QueryRow& query_row = tile.scores.scratch.query_rows[r];
    const double sum = double{*query_row.sum};
    const double prob =
        sum == 0
            ? 0
            : std::exp(double{query_row.sink} - double{*query_row.max}) / sum;
    sinks_[static_cast<size_t>(number * group + query_row.head % group)] -=
        prob * sum_p_dp;
  }
}

void Launcher::StoreSinks() {
  if (!problem_.has(Slot::kGradSink)) return;
  const TensorSpec& spec = problem_[Slot::kGradSink];
  const int64_t group = problem_.group();
  std::vector<double> sums(static_cast<size_t>(problem_.heads));
  for (int64_t n = 0; n < schedule_.count(); ++n) {
    const int64_t first = schedule_.At(n).kv_head * group;
    for (int64_t h = 0; h < group; ++h) {
      sums[static_cast<size_t>(first + h)] +=
          sinks_[static_cast<size_t>(n * group + h)];
    }
  }
  for (int64_t head = 0; head < problem_.heads; ++head) {
    WriteNumber(spec.dtype,
                bindings_[Slot::kGradSink] + spec.At(head) * SizeOf(spec.dtype),
                sums[static_cast<size_t>(head)]);
  }
}

Status PreparedBackward::Run(const Bindings& bindings, std::byte* memory,
                             Workers& workers) const {
  Launcher(*this, bindings, memory).Run(workers);
  return {};
}

}  // namespace
}  // namespace cpu

const Implementation kCpuBackward{
    .name = "cpu/backward",
    .supports = cpu::Supports,
    .prepare = MakePrepared<cpu::PreparedBackward>};

}  // namespace flashacl
