// SPDX-License-Identifier: Apache-2.0
// Plans backward problems and runs them: which worker computes which tile, and
// when a tile adds to the gradients of its keys. A tile owns the gradients of
// its queries; the tiles of one kv head add to those of its keys in order.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/function_ref.h"
#include "base/number.h"
#include "base/run_memory.h"
#include "cpu/backward/backward_kernel.h"
#include "cpu/backward/backward_rehearsal.h"
#include "cpu/backward/backward_workspace.h"
#include "cpu/backward/bias_gradient.h"
#include "cpu/backward/ordered_sum.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "cpu/processor_kind.h"
#include "cpu/streams.h"
#include "cpu/support.h"
#include "cpu/tuning.h"
#include "cpu/work_loop.h"
#include "plan/implementation.h"
#include "plan/sequences.h"

namespace flashacl {
namespace cpu {
namespace {

// Whether rows are prefetched while those before them are computed. On Intel's
// the loops that do it wait for as long as loading them takes by itself, or
// longer (docs/notes/0061).
const bool kPrefetchesRowsAhead = kProcessorKind != ProcessorKind::kOther;

Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  return SupportsTiles(problem, Direction::kBackward);
}

// All that the problem asks for.
Wanted WantedOf(const AttentionProblem& problem) {
  const bool key =
      problem.has(Slot::kGradKey) || problem.has(Slot::kGradKeyRope);
  return {.query = problem.has(Slot::kGradQuery) ||
                   problem.has(Slot::kGradQueryRope),
          .key = key,
          .value =
              problem.has(Slot::kGradValue) || (problem.kv.value_is_key && key),
          .bias = problem.has(Slot::kGradBias),
          .sink = problem.has(Slot::kGradSink)};
}

class PreparedBackward final : public HostPrepared {
 public:
  PreparedBackward(const AttentionProblem& problem, const DeviceInfo& device,
                   WorkspaceLayout& layout)
      : HostPrepared(problem, kShortGradGflops),
        shape(SharedGradTileShape(problem, BackwardTileShape(problem, device),
                                  device.workers)),
        schedule(KnownSchedule(problem, shape)),
        workspace(ReserveBackward(
            problem, shape, device.workers, layout,
            TakesMatrices(problem, Backward()) ? MatrixTerms(problem) : 0)),
        streams(StreamsResults(problem, device)) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override {
    return flashacl::Describe(schedule, shape);
  }

  Balance Predict(int64_t workers) const override;

  const TileShape shape;
  const Schedule schedule;  // empty if lengths are on the device
  const BackwardWorkspace workspace;
  const bool streams;
};

// Whatever comes out of a tile: the others do not wait for it. Not local to the
// generic lambda that has one: clang 15 to 19 leave its destructor undefined.
struct Leaving {
  OrderedSum& sum;
  bool done = false;

  ~Leaving() {
    if (!done) sum.GiveUp();
  }
};

// One run.
class Launcher {
 public:
  Launcher(const PreparedBackward& prepared, const Bindings& bindings,
           std::byte* memory);

  void Run(Workers& workers);

 private:
  // One of those that work at the same time, with its scratch memory.
  struct Worker {
    int64_t index;
    BackwardTile tile;
  };
  static constexpr int64_t kNoTile = -1;  // where a tile's number may be

  // Calls work(n, worker) for all n in [0, count), begun in this order.
  template <typename Work>
  void ForEach(Workers& workers, const Wanted& wanted, int64_t count,
               Work work);

  // Each worker computes what is wanted of one tile after the other.
  void SweepTiles(Workers& workers, const Wanted& wanted);
  // Each worker computes the gradients of some steps of keys, from all tiles.
  void SweepKeys(Workers& workers, const Wanted& wanted);

  void ComputeTile(int64_t number, int64_t next, Worker& worker);
  void ComputeKeys(const HeadTiles& head, Range steps, BackwardTile& tile);

  bool SeesOneStep(int64_t number) const;
  void StartTile(const Tile& scheduled, bool one_step, BackwardTile& tile);
  RowsAhead PrepareNext(int64_t number, BackwardTile& tile) const;
  void ComputeStep(const Tile& scheduled, BackwardTile& tile, KeyStep& step,
                   const RowsAhead& next_tile,
                   FunctionRef<void(Range block, BlockOrder order)> add);
  Range BlockAt(const Tile& scheduled, int64_t n) const;
  double* SinksOf(int64_t number, int64_t block);
  void FinishTile(int64_t number, const BackwardTile& tile);
  void StoreSinks();

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  std::byte* memory_;
  const BackwardWorkspace& workspace_;
  const bool streams_;
  const ForwardOperands operands_;
  const BackwardKernels kernels_ = Backward();
  const PairDots dots_ = workspace_.matrix_terms > 0
                             ? PairDots::kMatrices
                             : ChoosePairDots(kernels_.has_pair_dots);
  const RunSchedule run_schedule_;
  const Schedule& schedule_;
  OrderedSum ordered_sum_;
  const BiasGradient bias_;
  const int64_t max_blocks_;  // of a tile's rows
  RunVector<double> sinks_;   // [tile, block of rows, head of the group]
};

Launcher::Launcher(const PreparedBackward& prepared, const Bindings& bindings,
                   std::byte* memory)
    : problem_(prepared.problem()),
      bindings_(bindings),
      memory_(memory),
      workspace_(prepared.workspace),
      streams_(prepared.streams),
      operands_(problem_, bindings, prepared.shape.cols),
      run_schedule_(prepared.schedule, operands_, prepared.shape),
      schedule_(*run_schedule_),
      ordered_sum_(problem_, operands_.sequences(), schedule_,
                   {.step_columns = prepared.shape.cols,
                    .interleaved = workspace_.interleaved,
                    .in_flight = workspace_.accumulators}),
      bias_(problem_, bindings, operands_.sequences(),
            workspace_.bias_sums.In(memory)),
      max_blocks_(CeilDiv(prepared.shape.rows, workspace_.row_block)) {
  if (problem_.has(Slot::kGradSink)) {
    sinks_.resize(static_cast<size_t>(schedule_.count() * max_blocks_ *
                                      problem_.group()));
  }
}

void Launcher::Run(Workers& workers) {
  operands_.ClearUnownedGradients(ordered_sum_.SomeKeysAreUnseen());
  bias_.Clear();
  const Wanted all = WantedOf(problem_);
  Wanted by_tile = all;
  if (workspace_.sweeps_twice) by_tile.key = by_tile.value = false;
  SweepTiles(workers, by_tile);
  bias_.Store(workers);
  StoreSinks();
  if (workspace_.sweeps_twice && (all.key || all.value)) {
    SweepKeys(workers, {.key = all.key, .value = all.value});
  }
}

template <typename Work>
void Launcher::ForEach(Workers& workers, const Wanted& wanted, int64_t count,
                       Work work) {
  // A worker that computes a kv head alone needs an accumulator.
  const int64_t most =
      bias_.shared() && workspace_.accumulators > 0
          ? std::min(workspace_.workers, workspace_.accumulators)
          : workspace_.workers;
  ForEachWorker(workers, most, count, [&](int64_t index, auto take) {
    Leaving leaving{ordered_sum_};
    Worker worker{index, {}};
    worker.tile.backward = workspace_.scratch.At(memory_, index);
    worker.tile.scratch = workspace_.scores.At(memory_, index);
    worker.tile.wanted = wanted;
    for (int64_t n = take(); n < count; n = take()) work(n, worker);
    if (streams_) kernels_.flush();
    leaving.done = true;
  });
}

void Launcher::SweepTiles(Workers& workers, const Wanted& wanted) {
  if (!bias_.shared()) {
    const std::span<const int64_t> order = ordered_sum_.order();
    const auto number = [&](int64_t n) {
      return n < schedule_.count() ? order[static_cast<size_t>(n)] : kNoTile;
    };
    // Tiles that take equally long come to workers in turn.
    return ForEach(
        workers, wanted, schedule_.count(), [&](int64_t n, Worker& worker) {
          ComputeTile(number(n), number(n + workspace_.workers), worker);
        });
  }
  // One worker takes all tiles that share elements of the bias, in order.
  RunVector<RunVector<int64_t>> classes(static_cast<size_t>(bias_.classes()));
  for (int64_t n = 0; n < schedule_.count(); ++n) {
    const int64_t own = bias_.ClassOf(schedule_.At(n));
    classes[static_cast<size_t>(own)].push_back(n);
  }
  ForEach(workers, wanted, bias_.classes(), [&](int64_t own, Worker& worker) {
    for (const int64_t n : classes[static_cast<size_t>(own)]) {
      ComputeTile(n, kNoTile, worker);
    }
  });
}

// Where tiles share a bias, this worker computes all tiles of the kv head and
// waits for nobody. `next` is the tile that this worker probably computes
// afterwards: if it does not, some prefetches were for nothing.
void Launcher::ComputeTile(int64_t number, int64_t next, Worker& worker) {
  BackwardTile& tile = worker.tile;
  const Tile scheduled = schedule_.At(number);
  const HeadTiles& head = ordered_sum_.HeadOf(number);
  const bool adds = tile.wanted.key || tile.wanted.value;
  const bool alone = bias_.shared();
  const bool waits = adds && head.summed() && !alone;
  StartTile(scheduled, SeesOneStep(number), tile);
  if (waits && !ordered_sum_.WaitForAccumulator(head)) return;
  for (int64_t s = 0; s < head.steps; ++s) {
    KeyStep step{ordered_sum_.SeenStep(number, s)};
    if (step.cols.empty()) continue;
    const bool last =
        s + 1 == head.steps || ordered_sum_.SeenStep(number, s + 1).empty();
    const bool ahead = kPrefetchesRowsAhead && last && next != kNoTile;
    const RowsAhead next_tile = ahead ? PrepareNext(next, tile) : RowsAhead{};
    if (!adds) {
      ComputeStep(scheduled, tile, step, next_tile, [](Range, BlockOrder) {});
      continue;
    }
    const Ticket ticket = ordered_sum_.TicketOf(number, s);
    const KvSums sums =
        head.summed() ? workspace_.Accumulator(
                            memory_, alone ? worker.index : head.accumulator,
                            step.cols.first)
                      : workspace_.WorkerSums(tile, 0);
    bool may_add = true;
    const auto add = [&](Range block, BlockOrder order) {
      if (order.first) {
        may_add = !waits || ordered_sum_.Wait(head, s, ticket);
      }
      order.first &= ticket.before == 0;
      order.last &= ticket.last;
      if (may_add) kernels_.add_dkv(tile, step, block, order, sums);
    };
    ComputeStep(scheduled, tile, step, next_tile, add);
    if (!may_add) return;
    if (waits) ordered_sum_.Pass(head, s, ticket);
  }
  FinishTile(number, tile);
  if (waits) ordered_sum_.Finish(head);
}

void Launcher::SweepKeys(Workers& workers, const Wanted& wanted) {
  struct Item {
    const HeadTiles& head;
    Range steps;
  };
  RunVector<Item> items;
  for (const HeadTiles& head : ordered_sum_.heads()) {
    for (int64_t s = 0; s < head.steps; s += workspace_.swept_steps) {
      items.push_back(
          {head, {s, std::min(s + workspace_.swept_steps, head.steps)}});
    }
  }
  ForEach(workers, wanted, static_cast<int64_t>(items.size()),
          [&](int64_t n, Worker& worker) {
            const Item& item = items[static_cast<size_t>(n)];
            ComputeKeys(item.head, item.steps, worker.tile);
          });
}

// Gradients of the keys of some steps, from all tiles that see them.
void Launcher::ComputeKeys(const HeadTiles& head, Range steps,
                           BackwardTile& tile) {
  const auto sums_of = [&](int64_t step) {
    return workspace_.WorkerSums(tile,
                                 (step - steps.first) * head.step_columns);
  };
  workspace_.Clear(sums_of(steps.first), steps.size() * head.step_columns);
  std::array<Range, kSweptSteps> seen{};
  for (int64_t n = head.first; n < head.first + head.tiles; ++n) {
    const Tile scheduled = schedule_.At(n);
    bool started = false;
    for (int64_t s = steps.first; s < steps.last; ++s) {
      KeyStep step{ordered_sum_.SeenStep(n, s)};
      if (step.cols.empty()) continue;
      if (!started) StartTile(scheduled, false, tile);
      started = true;
      seen[static_cast<size_t>(s - steps.first)] = step.cols;
      ComputeStep(scheduled, tile, step, {}, [&](Range block, BlockOrder) {
        kernels_.add_dkv(tile, step, block, {}, sums_of(s));
      });
    }
  }
  // Keys that nobody sees are 0 already.
  for (int64_t s = steps.first; s < steps.last; ++s) {
    const Range cols = seen[static_cast<size_t>(s - steps.first)];
    if (!cols.empty()) kernels_.store_dkv(tile, cols, sums_of(s));
  }
}

// Whether all keys that a tile sees are in one step; not if it sees none.
bool Launcher::SeesOneStep(int64_t number) const {
  const int64_t steps = ordered_sum_.HeadOf(number).steps;
  int64_t seen = 0;
  for (int64_t s = 0; s < steps && seen < 2; ++s) {
    if (!ordered_sum_.SeenStep(number, s).empty()) ++seen;
  }
  return seen == 1;
}

void Launcher::StartTile(const Tile& scheduled, bool one_step,
                         BackwardTile& tile) {
  const auto keys = [&](Slot slot) {
    return operands_.RowsOf(slot, scheduled.sequence, &Sequence::keys);
  };
  static_cast<ScoreTile&>(tile) =
      operands_.ScoreTileOf(scheduled, tile.scratch);
  tile.value_is_key = problem_.kv.value_is_key;
  tile.panel_rows = kernels_.panel_rows;
  tile.kv_head = scheduled.kv_head;
  tile.grad_rows = operands_.GradRowsOf(scheduled.sequence);
  tile.grad_key = keys(Slot::kGradKey);
  tile.grad_key_rope = keys(Slot::kGradKeyRope);
  tile.grad_value = keys(Slot::kGradValue);
  const bool pairs =
      workspace_.matrix_terms > 0 || ArePairs(tile, tile.grad_rows);
  tile.dots = pairs ? dots_ : PairDots::kNone;
  tile.terms = std::max(workspace_.matrix_terms, 1);
  tile.rounds = RoundsProbsToBf16(problem_) && tile.dots != PairDots::kNone &&
                tile.dots != PairDots::kMatrices;
  tile.grad_terms = RoundsProbsToBf16(problem_) ? 1 : 2;
  tile.rows_loaded = false;
  tile.one_step = one_step;
  tile.streams = streams_;
  kernels_.start(tile);
}

// Fills next_query_rows with the block of rows that tile `number` begins with.
RowsAhead Launcher::PrepareNext(int64_t number, BackwardTile& tile) const {
  Tile next = schedule_.At(number);
  const Range block = BlockAt(next, 0);
  next.rows = {next.rows.first + block.first, next.rows.first + block.last};
  QueryRow* const rows = tile.backward.next_query_rows;
  operands_.FillQueryRows(next, {rows, static_cast<size_t>(block.size())});
  return {rows, block.size(), operands_.GradRowsOf(next.sequence)};
}

// Calls add(block, order) for every block of rows once its P and dS are there,
// in the order of tiles: sums do not depend on how many blocks a tile has. The
// order is that within the tile. Where rows are prefetched ahead, those of the
// next block are while one is computed, if they are still to be loaded, and
// those of the next tile while the last one is.
void Launcher::ComputeStep(const Tile& scheduled, BackwardTile& tile,
                           KeyStep& step, const RowsAhead& next_tile,
                           FunctionRef<void(Range, BlockOrder)> add) {
  kernels_.load(tile, step);
  const int64_t rows = scheduled.rows.size();
  const int64_t blocks = CeilDiv(rows, workspace_.row_block);
  for (int64_t n = 0; n < blocks; ++n) {
    const Range block = BlockAt(scheduled, n);
    if (!tile.rows_loaded) kernels_.load_rows(tile, block);
    tile.ahead = {};
    if (n + 1 == blocks) {
      tile.ahead = next_tile;
    } else if (kPrefetchesRowsAhead && !tile.rows_loaded) {
      const Range next = BlockAt(scheduled, n + 1);
      tile.ahead = {tile.scratch.query_rows + next.first, next.size(),
                    tile.grad_rows};
    }
    kernels_.softmax(tile, step, block);
    if (tile.wanted.bias) bias_.Add(scheduled.sequence, tile, step, block);
    add(block, {.first = n == 0, .last = n + 1 == blocks});
  }
  tile.rows_loaded = true;
}

// The `n`th block of a tile's rows.
Range Launcher::BlockAt(const Tile& scheduled, int64_t n) const {
  const int64_t size = workspace_.row_block;
  const int64_t rows = scheduled.rows.size();
  const int64_t at =
      scheduled.last_rows_first ? CeilDiv(rows, size) - 1 - n : n;
  return {at * size, std::min((at + 1) * size, rows)};
}

// Stores dq, and adds to
//   dsink = -sum over rows of psink sum_j p dp
// to which a row that sees nothing adds nothing.
void Launcher::FinishTile(int64_t number, const BackwardTile& tile) {
  kernels_.store_dq(tile);
  if (!tile.wanted.sink) return;
  const int64_t group = problem_.group();
  for (int64_t r = 0; r < tile.rows; ++r) {
    const double sum_p_dp = double{tile.backward.sum_p_dp[r]};
    if (sum_p_dp == 0) continue;
    const QueryRow& query_row = tile.scratch.query_rows[r];
    const double sum = double{*query_row.sum};
    const double exp =
        std::exp(double{query_row.sink} - double{*query_row.max});
    const double prob = sum == 0 ? 0 : exp / sum;
    SinksOf(number, r / workspace_.row_block)[query_row.head % group] -=
        prob * sum_p_dp;
  }
}

double* Launcher::SinksOf(int64_t number, int64_t block) {
  return sinks_.data() + (number * max_blocks_ + block) * problem_.group();
}

void Launcher::StoreSinks() {
  if (!problem_.has(Slot::kGradSink)) return;
  const TensorSpec& spec = problem_[Slot::kGradSink];
  const int64_t group = problem_.group();
  RunVector<double> sums(static_cast<size_t>(problem_.heads));
  for (int64_t n = 0; n < schedule_.count(); ++n) {
    const Tile tile = schedule_.At(n);
    const int64_t first = tile.kv_head * group;
    const int64_t blocks = CeilDiv(tile.rows.size(), workspace_.row_block);
    for (int64_t k = 0; k < blocks; ++k) {
      const int64_t block = BlockAt(tile, k).first / workspace_.row_block;
      const double* const sinks = SinksOf(n, block);
      for (int64_t h = 0; h < group; ++h) {
        sums[static_cast<size_t>(first + h)] += sinks[h];
      }
    }
  }
  for (int64_t head = 0; head < problem_.heads; ++head) {
    WriteNumber(spec.dtype,
                bindings_[Slot::kGradSink] + spec.At(head) * SizeOf(spec.dtype),
                sums[static_cast<size_t>(head)]);
  }
}

Balance PreparedBackward::Predict(int64_t workers) const {
  if (!SequencesAreKnown(problem())) return {};
  const int64_t most = std::min(workers, workspace.workers);
  return RehearseBackward(problem(), schedule, workspace, shape, most);
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
