// SPDX-License-Identifier: Apache-2.0
// Many workers: they share work evenly, and no bit depends on how many they
// are, though tiles do.
#include <gtest/gtest.h>

#include <string>

#include "backends.h"
#include "base/str.h"
#include "cpu/backward/backward_rehearsal.h"
#include "cpu/forward/forward_workspace.h"
#include "cpu/tile_costs.h"
#include "plan/plan.h"
#include "tests/cpu/runs.h"

namespace flashacl {
namespace {

using testing::ProblemOf;

Plan PlanFor(const AttentionProblem& problem, int64_t workers) {
  DeviceInfo device;
  device.workers = workers;
  const Result<Plan> plan =
      MakePlan({"many", device, CpuBackend().implementations}, problem);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *plan;
}

constexpr const char* kLengths =
    "q=17,2048,130,900,64,1500,333,512,1024,700,48,916 "
    "k=17,2048,130,900,64,1500,333,512,1024,700,48,916";

struct Kind {
  const char* name;
  std::string line;
};

const Kind kKinds[] = {
    {"prompt", "fwd bf16 h=32/8 d=128 q=4096 k=4096 causal"},
    {"prompt without a mask", "fwd f32 h=32/8 d=128 q=2048 k=2048"},
    {"prompts", "fwd bf16 h=32/8 d=128 q=8x1024 k=8x1024 causal"},
    {"packed training, forward",
     Str("fwd bf16 h=32/8 d=128 {} causal stats", kLengths)},
    {"packed training, forward, a rank",
     Str("fwd bf16 h=8/2 d=128 {} causal stats", kLengths)},
    {"packed training, backward",
     Str("bwd bf16 h=32/8 d=128 {} causal", kLengths)},
    {"ragged decode",
     "fwd f16 h=32/8 d=128 q=64x1 "
     "k=24x64,16x300,10x1000,6x2500,4x5000,2x9000,2x16384"},
    {"top-k, a prompt",
     "fwd bf16 h=128/1 d=512+64/512 q=128 k=8192 topk:2048 shared causal"},
    {"top-k, decode",
     "fwd bf16 h=16/1 d=512+64/512 q=64x1 k=64x4096 topk:2048 shared causal"},
    {"top-k, backward",
     "bwd bf16 h=128/1 d=512+64/512 q=512 k=32768 topk:2048"},
    {"one long head", "fwd f32 h=1 d=128 q=16384 k=16384"},
    {"one long head, decode", "fwd bf16 h=4/1 d=128 q=1 k=1000000"},
};

TEST(Share, WorkersHaveAlmostTheSameWork) {
  for (const Kind& kind : kKinds) {
    const AttentionProblem problem = ProblemOf(kind.line);
    for (const int64_t workers : {16, 64, 192}) {
      const Plan plan = PlanFor(problem, workers);
      const Balance balance = plan.prepared->Predict(workers);
      SCOPED_TRACE(Str("{}, {} workers, {}, {}", kind.name, workers,
                       plan.implementation->name, plan.prepared->Describe()));
      EXPECT_EQ(balance.workers, workers);
      EXPECT_GE(balance.pieces, workers);
      EXPECT_GT(balance.evenness(), 0.93);
      EXPECT_LE(balance.evenness(), 1 + 1e-9);
      EXPECT_LE(balance.busy(), balance.evenness() + 1e-9);
      EXPECT_LT(balance.combining, 0.01 * balance.work);
    }
  }
}

// Splits that a window hides are none, whatever a sequence has of them.
TEST(Share, PiecesAreOfWhatAWindowSees) {
  const AttentionProblem problem =
      ProblemOf("fwd f16 h=32/8 d=128 q=16x1 k=16x131072 window:4096:0");
  for (const int64_t workers : {2, 12, 24, 48}) {
    const Balance balance =
        PlanFor(problem, workers).prepared->Predict(workers);
    EXPECT_GT(balance.evenness(), 0.88) << workers;
    EXPECT_GE(balance.pieces, 6 * workers);
  }
}

// By hand: 40 rows of 4 keys, 3 + 2 channels; 12 and 10 multiply-adds of each
// channel for a key and for a row.
TEST(Share, TilesCostTheirPairsKeysAndRows) {
  const AttentionProblem problem = ProblemOf("fwd f32 h=1 d=3/2 q=40 k=4");
  const cpu::TileCosts costs(problem);
  const Tile tile{.rows = {0, 40}, .cols = {0, 4}};
  EXPECT_EQ(costs.Attend(tile), 5.0 * (40 * 4 + 12 * 4 + 10 * 40));
  const AttentionProblem backward = ProblemOf("bwd f32 h=1 d=3/2 q=40 k=4");
  EXPECT_EQ(cpu::TileCosts(backward).Attend(tile),
            (3 * 3 + 2 * 2) * 160.0 + 5.0 * (12 * 4 + 10 * 40));
}

// 11 splits in pieces of at most 5 are 4, 4 and 3; heads by twos.
TEST(Share, PiecesOfSplitsAreEven) {
  const cpu::PieceShape piece{.heads = 2, .splits = 5};
  Tile tile;
  tile.num_splits = 11;
  for (const int64_t split : {0, 4, 8}) {
    tile.split = split;
    EXPECT_EQ(piece.SplitsFrom(tile), split == 8 ? 3 : 4);
  }
  tile.split = 5;
  EXPECT_EQ(piece.SplitsFrom(tile), 0);
  EXPECT_EQ(cpu::PieceShape{}.SplitsFrom(tile), 1);
  tile.split = 0;
  tile.kv_head = 1;
  EXPECT_EQ(piece.SplitsFrom(tile), 0);
}

// One head, whose tiles add to the same keys one after the other: they wait.
TEST(Share, TilesThatAddToTheSameKeysWait) {
  const AttentionProblem problem = ProblemOf("bwd f32 h=1 d=64 q=4096 k=4096");
  DeviceInfo device;
  device.workers = 32;
  const TileShape shape = cpu::SharedGradTileShape(
      problem, cpu::BackwardTileShape(problem, device), 32);
  WorkspaceLayout layout;
  const cpu::BackwardWorkspace workspace =
      cpu::ReserveBackward(problem, shape, 32, layout);
  const Balance balance = cpu::RehearseBackward(
      problem, cpu::KnownSchedule(problem, shape), workspace, shape, 32);
  EXPECT_EQ(balance.evenness(), 1);
  EXPECT_LT(balance.busy(), 0.9);
}

// All that is computed is predicted, whoever shares it: tiles of fewer rows
// load keys more often, and nothing else.
TEST(Share, WorkIsThatOfTheProblem) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const AttentionProblem problem = ProblemOf(kind.line);
    const double alone = PlanFor(problem, 1).prepared->Predict(1).work;
    EXPECT_GT(alone, 0);
    for (const int64_t workers : {16, 192}) {
      const Balance many = PlanFor(problem, workers).prepared->Predict(workers);
      EXPECT_GE(many.work, alone * (1 - 1e-9));
      EXPECT_LT(many.work, alone * 1.25);
      EXPECT_GE(many.elapsed * static_cast<double>(workers),
                many.work * (1 - 1e-9));
    }
  }
}

TEST(Share, NobodyPredictsLengthsThatOnlyTheDeviceKnows) {
  for (const char* line :
       {"fwd f16 h=8/2 d=64 q=4x70 k=4x1700 counts:qk causal",
        "fwd bf16 h=4/1 d=64 q=3x1 k=3x1700 counts:k"}) {
    EXPECT_EQ(PlanFor(ProblemOf(line), 4).prepared->Predict(4).workers, 0);
  }
}

// Runs a plan for one worker and others for many, and says how many of these
// have other tiles.
int64_t ExpectSameBitsForAnyWorkers(const AttentionProblem& problem) {
  SmallCase alone(problem);
  Random random(11);
  alone.FillInputs(random);
  const Plan first = PlanFor(problem, 1);
  testing::RunOn(*first.implementation, alone, 1);
  int64_t other_tiles = 0;
  for (const int workers : {16, 64, 192}) {
    SmallCase shared(problem);
    shared.CopyInputs(alone);
    const Plan plan = PlanFor(problem, workers);
    other_tiles +=
        plan.prepared->Describe() != first.prepared->Describe() ? 1 : 0;
    testing::RunOn(*plan.implementation, shared, workers);
    testing::ExpectSameBits(shared, alone);
  }
  return other_tiles;
}

// Tiles of more workers have fewer rows; what a row is must not show it.
class ShareBits : public ::testing::TestWithParam<const char*> {};

TEST_P(ShareBits, DoNotDependOnHowManyWorkersAPlanIsFor) {
  // Else this shows nothing.
  EXPECT_GT(ExpectSameBitsForAnyWorkers(ProblemOf(GetParam())), 0);
}

// Stages of listed keys and bundles of heads, which plans do not describe. A
// list of 5,000 keys has two parts, which a stage takes one after the other.
TEST(Share, StagesAndBundlesDoNotDecideOnBits) {
  for (const char* line :
       {"bwd f32 h=1 d=8 q=200 k=9000 topk:5000",
        "bwd f32 h=4/2 d=8 q=2x150 k=2x700 topk:300",
        "fwd f16 h=16/1 d=32 q=40 k=3000 topk:2048",
        "fwd bf16 h=8/4 d=32 q=5x1 k=3000,40,900,0,2000 stats"}) {
    SCOPED_TRACE(line);
    (void)ExpectSameBitsForAnyWorkers(ProblemOf(line));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lines, ShareBits,
    ::testing::Values(
        "fwd f16 h=4/2 d=40 q=700 k=900 causal stats",
        "fwd f32 h=2 d=24 q=500 k=700 window:99:20 sink stats",
        "fwd bf16 h=4/1 d=32 q=300,77,500 k=400,500,900 mask bias stats",
        "fwd f32 h=1 d=16 q=500 k=6000 causal sink stats",
        "fwd f32 h=1 d=16 q=600 k=5000 stats",
        "fwd f16 h=8/2 d=16 q=300,1,1 k=900,2000,50 causal",
        "bwd f32 h=16/4 d=8 q=1100 k=150 causal",
        "bwd f16 h=24/8 d=8 q=300,500,77 k=120,90,50 window:99:20",
        "bwd f32 h=18/2 d=8 q=1000 k=140 causal sink",
        "bwd f32 h=16/4 d=8 q=1100 k=150 bias:ij grad:qkvb"));

}  // namespace
}  // namespace flashacl
