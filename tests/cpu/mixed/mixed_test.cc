// SPDX-License-Identifier: Apache-2.0
// Batches of prompts and single tokens: each sequence goes where it would go
// without those of the other kind, whoever works.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/str.h"
#include "cpu/decode/few_rows.h"
#include "cpu/implementations.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"

namespace flashacl {
namespace {

using testing::OneOf;
using testing::OnTarget;
using testing::ProblemOf;
using testing::RunOn;

class Mixed : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
};

// Four query heads share a kv head. Without grids, which lie otherwise where
// other sequences have other lengths.
constexpr const char* kLines[] = {
    "fwd f16 h=8/2 d=64 q=90,3,1,0,11 k=300,4000,1600,7,1700 causal",
    "fwd bf16 h=16/4 d=40 q=10,11,1 k=50,1100,5000 paged:16 sink",
    "fwd bf16 h=8/2 d=64 q=60,4x1 k=100,4x90 paged:16 int8:channel",
    "fwd f32 h=4/1 d=32 q=2,40,3 k=3100,100,0 window:2000:0 alibi",
    "fwd f32 h=8/2 d=40 q=60,15,1 k=1700,600,90 paged:16"};

// The problem without sequences of one kind, of which few have up to so many
// positions.
AttentionProblem Only(AttentionProblem problem, bool few, int64_t positions) {
  for (Sequence& sequence : problem.lengths.sequences) {
    const bool is_few = sequence.rows() <= positions;
    if (is_few != few) sequence.queries.last = sequence.queries.first;
  }
  return problem;
}

// Bytes of the output of one sequence.
std::vector<std::byte> OutOf(const SmallCase& small, int64_t b) {
  const TensorSpec& out = small.problem()[Slot::kOut];
  const Sequence& sequence =
      small.problem().lengths.sequences[static_cast<size_t>(b)];
  const int64_t bytes = SizeOf(out.dtype);
  const auto all = small.bytes(Slot::kOut);
  const auto begin = all.begin() + out.At(b, sequence.queries.first) * bytes;
  return {begin, begin + sequence.rows() * out.strides[1] * bytes};
}

TEST_P(Mixed, SequencesHaveTheBitsOfTheirKindAlone) {
  for (const char* line : kLines) {
    SCOPED_TRACE(line);
    SmallCase batch(ProblemOf(line));
    Random random(5);
    batch.FillInputs(random);
    // Whose limits they are, whatever this processor's.
    for (const char* target : {"", "AVX2", "AVX3"}) {
      SCOPED_TRACE(target);
      DeviceInfo device;
      device.workers = 2;
      device.vector_target = target;
      const AttentionProblem& problem = batch.problem();
      const int64_t positions =
          cpu::MostFewRows(problem, device) / problem.group();
      RunOn(kCpuMixed, batch, device);
      SmallCase few(Only(problem, true, positions));
      SmallCase many(Only(problem, false, positions));
      few.CopyInputs(batch);
      many.CopyInputs(batch);
      RunOn(kCpuDecode, few, device);
      RunOn(kCpuForward, many, device);
      for (int64_t b = 0; b < problem.lengths.count(); ++b) {
        const Sequence& sequence =
            problem.lengths.sequences[static_cast<size_t>(b)];
        const SmallCase& alone = sequence.rows() <= positions ? few : many;
        EXPECT_EQ(OutOf(batch, b), OutOf(alone, b)) << b;
      }
    }
  }
}

TEST_P(Mixed, HasTheSameBitsForAnyWorkerCount) {
  for (const char* line : kLines) {
    SCOPED_TRACE(line);
    SmallCase alone(ProblemOf(line));
    Random random(6);
    alone.FillInputs(random);
    RunOn(kCpuMixed, alone);
    for (const int workers : {2, 3, 64}) {
      SmallCase shared(alone.problem());
      shared.CopyInputs(alone);
      RunOn(kCpuMixed, shared, workers);
      testing::ExpectSameBits(shared, alone);
    }
  }
}

// What the device says may be any mixture, or none.
TEST_P(Mixed, TakesLengthsFromTheDevice) {
  for (const char* line :
       {"fwd f16 h=8/2 d=64 q=4x70 k=4x1700 counts:qk causal stats",
        "fwd bf16 h=4/1 d=64 q=3x30 k=3x1700 paged:16 ends:q counts:k",
        "fwd f16 h=4/1 d=32 q=50,1,1 k=3x2000 counts:k"}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      testing::ExpectRight(line, "cpu/mixed", seed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Mixed,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

TEST(MixedBatches, HaveSequencesOfBothKinds) {
  for (const char* line : kLines) {
    EXPECT_TRUE(kCpuMixed.supports(ProblemOf(line), {}).ok()) << line;
  }
  for (const char* line :
       {"fwd f16 h=8/2 d=64 q=90,11 k=90,11", "fwd f16 h=8/2 d=64 q=2x1 k=2x9",
        "fwd f16 h=8/2 d=64 q=90,0 k=90,0", "fwd f16 h=8/2 d=64 q=0 k=5",
        "fwd f16 h=41/1 d=64 q=90,1 k=90,70",
        "fwd f16 h=41/1 d=64 q=2x90 k=2x90 counts:q",
        "fwd f16 h=8/2 d=64 q=2x10 k=2x90 counts:q",
        "fwd i8 h=2 d=16 q=90,1 k=90,9 int8:tensor",
        "fwd f16 h=1 d=8 q=50,1 k=50,40 topk:8"}) {
    EXPECT_FALSE(kCpuMixed.supports(ProblemOf(line), {}).ok()) << line;
  }
}

// The workspace of a problem of these lengths, which is no more than that of
// any.
int64_t WorkspaceWithinAny(const Backend& backend, const std::string& line) {
  const AttentionProblem problem = ProblemOf(line);
  const Result<Plan> plan = MakePlan(backend, problem);
  const Result<int64_t> most = WorkspaceOfAnyLengths(backend, problem);
  EXPECT_TRUE(plan.ok() && most.ok()) << line;
  if (!plan.ok() || !most.ok()) return 0;
  EXPECT_LE(plan->workspace.bytes(), *most) << line;
  return plan->workspace.bytes();
}

// An executor is made for lengths before they are known.
TEST(MixedBatches, TakeNoMoreWorkspaceThanAnyLengthsMay) {
  const Backend backend = CpuBackend();
  Random random(9);
  for (int n = 0; n < 300; ++n) {
    std::string rows = "60", keys = "3000";
    for (int64_t b = random.Within(1, 5); b > 0; --b) {
      rows += Str(",{}", random.OneIn(2) ? 1 : random.Within(0, 30));
      keys += Str(",{}", random.Within(0, 9000));
    }
    WorkspaceWithinAny(backend,
                       Str("fwd bf16 h=8/2 d=32 q={} k={}{} causal", rows, keys,
                           random.OneIn(2) ? " paged:16" : ""));
  }
}

// Where axes of queries hold few rows, shorter keys do not go to tiles of many
// rows either, whose workspace is larger.
TEST(MixedBatches, TakeNoMoreWorkspaceOfFewRowsThanAnyLengthsMay) {
  Backend backend = CpuBackend();
  Random random(11);
  for (int n = 0; n < 300; ++n) {
    backend.device.vector_target = OneOf<const char*>(random, {"AVX2", "AVX3"});
    const bool alone = random.OneIn(2);
    const std::string line =
        Str("fwd {} h={}/1 d={} q={} k={}{}",
            OneOf<const char*>(random, {"bf16", "f32"}), random.Within(5, 60),
            OneOf<int64_t>(random, {32, 128}), alone ? "1" : "2,1",
            alone ? "1030" : "1030,70", random.OneIn(2) ? " paged:16" : "");
    SCOPED_TRACE(line);
    AttentionProblem problem = ProblemOf(line);
    const Result<int64_t> most = WorkspaceOfAnyLengths(backend, problem);
    for (Sequence& sequence : problem.lengths.sequences) {
      const int64_t keys = std::min(OneOf<int64_t>(random, {9, 63, 64, 1023}),
                                    sequence.columns());
      sequence.keys.last = sequence.keys.first + keys;
      sequence.queries.last -= random.Within(0, sequence.rows());
    }
    const Result<Plan> plan = MakePlan(backend, problem);
    ASSERT_TRUE(plan.ok() && most.ok());
    EXPECT_LE(plan->workspace.bytes(), *most);
  }
}

// Neither do prompts, whose rows decide together how they are split.
TEST(ForwardWorkspaceOfAnyLengths, IsEnoughForAllOfThem) {
  Random random(10);
  Backend backend = CpuBackend();
  int64_t split = 0;
  for (int n = 0; n < 200; ++n) {
    backend.device.workers = random.Within(1, 40);
    std::string rows, keys;
    for (int64_t b = random.Within(1, 6); b > 0; --b) {
      rows += Str("{}{}", rows.empty() ? "" : ",", random.Within(1, 400));
      keys += Str("{}{}", keys.empty() ? "" : ",", random.Within(400, 12000));
    }
    split +=
        WorkspaceWithinAny(backend, Str("fwd bf16 h=32/8 d=32 q={} k={} causal",
                                        rows, keys)) > 10 << 20;
  }
  EXPECT_GT(split, 50);
  // These have few rows and are split; of as many as the axis has none is.
  const AttentionProblem few =
      ProblemOf("fwd bf16 h=32/8 d=128 q=4x128 k=4x8192 causal paged:128");
  backend.device.workers = 2;
  const Result<Plan> plan = MakePlan(backend, few);
  AttentionProblem axis =
      ProblemOf("fwd bf16 h=32/8 d=128 q=4x512 k=4x8192 causal paged:128");
  const Result<int64_t> most = WorkspaceOfAnyLengths(backend, axis);
  ASSERT_TRUE(plan.ok() && most.ok());
  EXPECT_GT(plan->workspace.bytes(), 20 << 20);
  EXPECT_LE(plan->workspace.bytes(), *most);
}

// A sequence is of one kind, so those on the device need the splits of one; but
// those of few rows are smaller here. Of 8 sequences, 64 rows of 2 kv heads may
// be split every 768 keys here and every 1024 by forward; more rows are so in
// up to 15 splits, and no more than 98,304 at all.
TEST(MixedBatches, SplitsOfUnknownLengthsAreReservedOnce) {
  const char* line = "fwd bf16 h=8/2 d=128 q=8x64 k=8x30000 counts:qk";
  const auto splits = [&](const Implementation& implementation) {
    const Plan plan = testing::PlanOn(implementation, ProblemOf(line));
    return plan.workspace.entries().back();
  };
  const auto bytes = [](int64_t rows) { return rows * (128 + 2) * 4; };
  const int64_t many = 8 * 64 * 8 * 15;
  ASSERT_LT(many, 98304);
  EXPECT_EQ(splits(kCpuMixed).name, "splits");
  EXPECT_EQ(splits(kCpuMixed).bytes, bytes(8 * 64 * 2 * 40 + many));
  EXPECT_EQ(splits(kCpuForward).bytes, bytes(8 * 64 * 2 * 30 + many));
}

}  // namespace
}  // namespace flashacl
