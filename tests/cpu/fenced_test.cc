// SPDX-License-Identifier: Apache-2.0
// Kernels read and write their tensors and their workspace, and not one byte
// more: on every instruction set, between pages that nobody may touch; and the
// same bits, whoever works. Then again with every buffer of their scratch by
// itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/str.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/pair_dots.h"
#include "cpu/support.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_backward_kernel.h"
#include "cpu/topk/topk_backward_operands.h"
#include "cpu/topk/topk_backward_workspace.h"
#include "cpu/topk/topk_forward_kernel.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/topk/work_items.h"
#include "plan/sequences.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/spaces.h"
#include "tests/cpu/topk/topk.h"

namespace flashacl::cpu {
namespace {

using testing::ExpectSameBits;
using testing::FencedBytes;
using testing::FencedTensors;
using testing::ForRandomProblems;
using testing::ProblemOf;
using testing::ResultsOf;

// Allocates buffers apart from each other.
struct Fences {
  std::vector<FencedBytes> memory;

  std::byte* operator()(int64_t bytes) {
    return memory.emplace_back(bytes).data();
  }
};

// What a run of forward does, tile by tile.
void LaunchTileByTile(const AttentionProblem& problem,
                      const Bindings& bindings) {
  WorkspaceLayout layout;
  const TileShape shape = ForwardTileShape(problem, {});
  const ForwardOperands run(problem, bindings, shape.cols);
  run.ClearUnownedRows();
  const Schedule schedule = run.BuildSchedule(shape);
  const TiledWorkspace workspace = ReserveForward(problem, shape, 1, layout);
  const int64_t split_floats =
      ReserveSplits(problem, schedule.split_rows(), layout).count;
  Fences memory;
  const ScoreScratch score = workspace.score.Apart(std::ref(memory));
  const ForwardScratch forward = workspace.forward.Apart(std::ref(memory));
  const TiledScratch tiled = workspace.tiled.Apart(std::ref(memory));
  const PackedValues values{tiled.values, tiled.value_keys};
  const FencedBytes splits(split_floats * 4);
  const ForwardKernels kernels = Forward();
  const auto tile_of = [&](int64_t n) {
    ForwardTile tile =
        run.TileOf(schedule, n, {score, forward, splits.as<float>()});
    UsePairs(ChoosePairDots(kernels.has_pair_dots, TileMatrixTerms(problem) > 0
                                                       ? kernels.matrices
                                                       : MatrixCode::kNone),
             tile);
    return tile;
  };
  for (int64_t n = 0; n < schedule.count(); ++n) {
    kernels.attend(tile_of(n), values, nullptr);
  }
  for (int64_t n = 0; n < schedule.count(); ++n) {
    const Tile cut = schedule.At(n);
    if (cut.num_splits > 1 && cut.split == 0)
      kernels.combine(tile_of(n), cut.num_splits);
  }
}

// What a run over whole lists does, item by item.
void LaunchItemByItem(const AttentionProblem& problem,
                      const Bindings& bindings) {
  WorkspaceLayout layout;
  const bool matrices = TakesMatrices(problem, TopKForward());
  const TileShape shape = TopKTileShape(problem, {}, matrices);
  const TopKForwardWorkspace workspace =
      ReserveTopKForward(problem, shape, 1, layout, matrices);
  Fences memory;
  const ScoreScratch score = workspace.score.Apart(std::ref(memory));
  const ForwardScratch forward = workspace.forward.Apart(std::ref(memory));
  const TopKForwardScratch lists_scratch =
      workspace.listed.Apart(std::ref(memory));
  const ForwardOperands run(problem, bindings, shape.cols);
  run.ClearUnownedRows();
  const WorkItems items(problem, run.sequences(), shape.rows);
  const IndexLists lists(problem, bindings);
  for (int64_t n = 0; n < items.count(); ++n) {
    const WorkItem item = items.At(n);
    TopKTile topk{run.TileOf({item.owner.sequence, item.owner.kv_head,
                              item.rows, Range{}, 0, 1},
                             score, forward),
                  lists_scratch};
    topk.count = lists.Fill(
        item.owner, run.sequences()[static_cast<size_t>(item.owner.sequence)],
        topk.tile.band, topk.tile.keys, {0, MaxListedKeys(problem)},
        topk.scratch.columns);
    if (matrices) {
      UsePairs(PairDots::kMatrices, topk.tile);
    } else if (ArePairs(topk.tile)) {
      topk.tile.dots = ChoosePairDots(TopKForward().has_pair_dots);
    }
    if (matrices || topk.tile.dots == PairDots::kNone ||
        ValuesArePairs(topk.tile)) {
      topk.tile.keys.DropSharedValues();
    } else {
      topk.tile.keys.NameSharedValues();
    }
    TopKForward().attend(topk);
  }
}

// Of every position, in fenced memory: its saved pds, the gradient of its
// queries, and what it adds to the keys of its first d block.
void LaunchPositionByPosition(const AttentionProblem& p,
                              const Bindings& bindings) {
  WorkspaceLayout layout;
  const PairDots dots = TopKBackwardDots(p);
  const bool matrices = dots == PairDots::kMatrices;
  const TopKBackwardTiling cut = TopKBackwardTilingOf(p, {}, matrices);
  const TopKBackwardWorkspace workspace =
      ReserveTopKBackward(p, cut, 1, layout, matrices);
  const TopKBackwardKernels kernels = TopKBackward();
  const TopKBackwardOperands run(p, bindings, cut);
  Fences memory;
  const FencedBytes grad_query(workspace.grad_query_floats * 4);
  const TopKBackwardMemory item_memory{
      workspace.score.Apart(std::ref(memory)),
      workspace.scratch.Apart(std::ref(memory)),
      workspace.saved.Apart(std::ref(memory)), grad_query.as<float>()};
  const FencedBytes sums(cut.batch_rows * cut.d_block_channels * 4);
  std::memset(sums.data(), 0, sums.span().size());
  run.forward().ClearUnownedGradients(false);
  for (const TopKBackwardBatch& batch : run.Batches()) {
    for (int64_t n = 0; n < batch.positions(); ++n) {
      const TopKBackwardSequenceHead& sequence_head = batch.SequenceHeadOf(n);
      TopKBackwardDqItem item =
          run.DqItemOf(sequence_head.OwnerOf(n), 0, item_memory);
      item.scores.dots = dots;
      kernels.differentiate(item);
      if (cut.key_d_blocks == 0) continue;
      const int64_t channels =
          std::min(cut.d_block_channels, p.qk_dim + p.rope_dim);
      DkvArgs add;
      add.columns = item.saved.columns;
      add.probs = item.saved.probs;
      add.grad_scores = item.saved.grad_scores;
      add.query = item.saved.query;
      add.grad_out = item.saved.grad_out;
      add.channel_pairs = SavesPairs(dots);
      add.value_channels = p.kv.value_is_key ? p.v_dim : 0;
      add.channels = channels;
      if (cut.packs_words) {
        add.is_words = item.saved.is_words;
        add.query_pairs = item.saved.query_pairs;
        add.grad_out_pairs = item.saved.grad_out_pairs;
        add.step_keys = cut.step_keys;
      }
      add.count = item.count;
      add.heads = p.group();
      add.head_stride = cut.head_stride;
      add.sums =
          sums.as<float>() + sequence_head.rows.first * cut.d_block_channels;
      add.sum_stride = cut.d_block_channels;
      kernels.add_to_keys(add);
    }
  }
}

class Fenced : public testing::EachKernel {
 protected:
  bool Is(const Implementation& one) const { return &one == &implementation_; }

  // Runs the kernels with every buffer by itself, if the run is one of those
  // above; returns the results that it has then.
  std::vector<Slot> LaunchApart(const AttentionProblem& p,
                                const Bindings& bindings) const {
    if (Is(kCpuForward)) {
      LaunchTileByTile(p, bindings);
      return ResultsOf(p);
    }
    const bool matrices = TakesMatrices(p, TopKForward());
    if (Is(kCpuTopKForward) &&
        TopKTileShape(p, {}, matrices).split_keys >= MaxListedKeys(p)) {
      LaunchItemByItem(p, bindings);
      return ResultsOf(p);
    }
    if (!Is(kCpuTopKBackward)) return {};
    LaunchPositionByPosition(p, bindings);
    if (TopKBackwardTilingOf(p, {}).num_splits > 1) return {};
    return {Slot::kGradQuery, Slot::kGradQueryRope};
  }

  void Check(const AttentionProblem& p, Random& random) const {
    if (!implementation_.supports(p, {}).ok()) return;
    SmallCase small(p);
    small.FillInputs(random);
    if (p.kv.gathers()) testing::SpoilLists(small, random);
    testing::SpoilTable(small, random);
    if (direction() == Direction::kBackward) RunForwardTwin(small);
    const FencedTensors apart(small, FencedBytes::Side::kEnd);
    testing::ExpectStaysInside(implementation_, small, {2, 3, 5});
    ExpectSameBits(small, apart.bindings(), LaunchApart(p, apart.bindings()));
  }

  void Check(const std::string& line, Random& random) const {
    SCOPED_TRACE(line);
    Check(ProblemOf(line), random);
  }
};

TEST_P(Fenced, RandomProblemsStayInside) {
  for (const testing::Tried& tried : testing::AllTried()) {
    if (!Is(*tried.implementation)) continue;
    ForRandomProblems(tried.fenced, tried.space,
                      [this](const AttentionProblem& p, Random& random) {
                        Check(p, random);
                      });
  }
}

// Channels and keys around every size of a block.
TEST_P(Fenced, EverySizeOfABlockStaysInside) {
  Random random(3);
  const bool backward = direction() == Direction::kBackward;
  for (int64_t size = 0; size <= 40; ++size) {
    for (const char* rest : {"q=5 k=150", "q=40 k=13 causal"}) {
      for (const char* dtype : {"f32", "f16", "bf16"}) {
        Check(Str("{} {} h=1 d={} {}", backward ? "bwd" : "fwd", dtype, size,
                  rest),
              random);
      }
    }
  }
}

// Rows that are loaded four at a time, with ropes after keys and values that
// are keys, of numbers that are no multiples of anything.
TEST_P(Fenced, RopesAndSharedValuesStayInside) {
  if (direction() != Direction::kForward) return;
  Random random(8);
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const char* rest :
         {"d=32+16/17 q=40 k=13", "d=33+17/33 q=20 k=14 shared",
          "d=64/20 q=33 k=15 shared", "d=48+20/64 q=17 k=160 causal"}) {
      Check(Str("fwd {} h=2/1 {}", dtype, rest), random);
    }
  }
}

// Heads that go side by side read what is absent at places of its own.
TEST_P(Fenced, AbsentPagesOfManyHeadsStayInside) {
  Random random(6);
  for (const char* line :
       {"fwd f32 h=16 d=64 q=8x1 k=8x50 paged:4",
        "fwd f16 h=32/16 d=128 q=8x1 k=8x100 paged:16",
        "fwd bf16 h=16/16 d=64+32/64 q=8x2 k=8x70 paged:8 causal",
        "fwd f16 h=16 d=128 q=8x1 k=8x60 paged:4 int8:channel+offset",
        "fwd bf16 h=16/1 d=512+64 q=8x2 k=8x60 paged:16 blocks:32 int8:tensor "
        "query:int8 causal",
        "fwd f16 h=16 d=128 q=8x1 k=8x60 paged:4 int4:channel+offset"}) {
    if (direction() == Direction::kForward) Check(line, random);
  }
}

// Integers on matrix registers, whose queries may take more than floats.
TEST_P(Fenced, IntegersOnMatricesStayInside) {
  if (Forward().matrices == MatrixCode::kInstructions && !HasMatrices()) {
    GTEST_SKIP() << "this processor has no matrix registers";
  }
  Random random(7);
  SetPairDotsForTest(PairDots::kMatrices);
  for (const char* line :
       {"fwd bf16 h=45/1 d=64+16/32 q=2 k=90 paged:16 blocks:32 int8:tensor "
        "query:int8",
        "fwd bf16 h=2 d=64 q=45 k=33 int8:channel",
        "fwd f16 h=2 d=32/96 q=33 k=200 int8:channel/row causal",
        "fwd bf16 h=2 d=96+16/32 q=40 k=70 int8:row",
        "fwd f16 h=2 d=32 q=40 k=70 paged:16 blocks:64 int4:channel",
        "fwd i8 h=2 d=32/64 q=65 k=33 int8:tensor"}) {
    if (Is(kCpuForward) || Is(kCpuMixed)) Check(line, random);
  }
  SetPairDotsForTest({});
}

// A bias stored along its diagonals has none where nobody sees.
TEST_P(Fenced, FewRowsOfADiagonalBiasStayInside) {
  Random random(4);
  for (const char* rest :
       {"f32 h=1 d=4 q=40 k=40 causal bias:diagonal:1",
        "f32 h=2/1 d=4 q=100 k=100 causal-left bias:before:diagonal:2",
        "f16 h=1 d=4 q=50 k=50 window:5:0 bias:diagonal:1"}) {
    const bool backward = direction() == Direction::kBackward;
    Check(Str("{} {}", backward ? "bwd" : "fwd", rest), random);
  }
}

// Several tiles add to the same keys; then every gradient alone.
TEST_P(Fenced, GradientsStayInside) {
  if (!Is(kCpuBackward)) return;
  Random random(5);
  for (const char* line :
       {"bwd f32 h=6/3 d=20 q=500 k=300 causal",
        "bwd bf16 h=2 d=33/17 q=300,290 k=130,500 window:70:9 sink",
        "bwd f16 h=5 d=8 q=400,0,260 k=20,30,210 mask keep:0.7",
        // Lines, of which results past the caches are.
        "bwd f32 h=6/3 d=32 q=500 k=300 causal",
        "bwd bf16 h=2/1 d=64+32/64 q=300 k=500 window:70:9 sink",
        "bwd f32 h=3/1 d=32/16 q=150 k=100 shared"}) {
    Check(line, random);
  }
  for (const char* wanted : {"q", "k", "v", "kv", "qb", "b"}) {
    for (const char* bias :
         {"bias", "bias:hij", "bias:j", "alibi", "causal bias:diagonal:7"}) {
      Check(Str("bwd f32 h=2/1 d=9/5 q=20 k=20 {} grad:{}", bias, wanted),
            random);
    }
  }
}

// Matrices are wider than blocks; more heads than 16 save words.
TEST_P(Fenced, ListsOnMatrixRegistersStayInside) {
  const bool backward = direction() == Direction::kBackward;
  if (!Is(backward ? kCpuTopKBackward : kCpuTopKForward)) return;
  SetPairDotsForTest(PairDots::kMatrices);
  Random random(7);
  for (const char* rest :
       {"h=16/1 d=16 q=2 k=40 topk:33", "h=17/1 d=48/16 q=2,3 k=90,7 topk:70",
        "h=40/1 d=16+16/32 q=2 k=200 topk:150 causal",
        "h=70/1 d=64/64 q=3 k=50 topk:50 shared",
        "h=33/1 d=32+16/32 q=2 k=320 topk:300 shared"}) {
    Check(Str("{} bf16 {}", backward ? "bwd" : "fwd", rest), random);
  }
  SetPairDotsForTest({});
}

// Rows of an odd number of pairs, or of fewer than a block of channels.
TEST_P(Fenced, ListsOfPairsStayInside) {
  const bool backward = direction() == Direction::kBackward;
  if (!Is(backward ? kCpuTopKBackward : kCpuTopKForward)) return;
  SetPairDotsForTest(PairDots::kMultiplyAdds);
  Random random(8);
  for (const char* rest :
       {"h=3/1 d=2 q=2 k=40 topk:33", "h=17/1 d=8+2/6 q=2,3 k=90,7 topk:70",
        "h=40/1 d=18+6/10 q=2 k=200 topk:150 causal",
        "h=16/1 d=10+4/10 q=3 k=50 topk:50 shared",
        "h=70/1 d=34/18 q=2 k=50 topk:20 shared",
        "h=33/1 d=66+2/66 q=2 k=320 topk:300 shared"}) {
    Check(Str("{} bf16 {}", backward ? "bwd" : "fwd", rest), random);
  }
  SetPairDotsForTest({});
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Fenced, testing::EveryKernel(),
                         testing::SettingTestName);

}  // namespace
}  // namespace flashacl::cpu
