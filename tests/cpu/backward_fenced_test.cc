// SPDX-License-Identifier: Apache-2.0
// Backward reads and writes its tensors and its workspace, and not one byte
// more: on every instruction set, between pages that nobody may touch. The same
// bits, whoever works.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/str.h"
#include "cpu/backward.h"
#include "cpu/backward_kernel.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tests/cpu/targets.h"
#include "tests/testing/fenced.h"
#include "tests/testing/generator.h"
#include "tests/testing/shuffled_workers.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::FencedBytes;
using testing::ForRandomProblems;
using testing::OnTarget;
using testing::Space;

// Copies of all tensors of a case.
class FencedTensors {
 public:
  FencedTensors(const SmallCase& small, FencedBytes::Side side) {
    for (size_t n = 0; n < kSlots; ++n) {
      const Slot slot = static_cast<Slot>(n);
      if (!small.problem().has(slot)) continue;
      const auto& bytes = small.bytes(slot);
      memory_.emplace_back(static_cast<int64_t>(bytes.size()), side);
      bindings_[slot] = memory_.back().data();
      if (!bytes.empty()) {
        std::memcpy(bindings_[slot], bytes.data(), bytes.size());
      }
    }
  }
  const Bindings& bindings() const { return bindings_; }

 private:
  std::vector<FencedBytes> memory_;
  Bindings bindings_;
};

void Launch(const AttentionProblem& problem, const Bindings& bindings,
            int workers) {
  Plan plan;
  plan.problem = problem;
  DeviceInfo device;
  device.workers = workers;
  kCpuBackward.prepare(device, plan);
  const FencedBytes workspace(
      RoundUp(plan.workspace.bytes(), WorkspaceLayout::kAlignmentBytes));
  ShuffledWorkers shuffled(workers, static_cast<uint64_t>(workers));
  const Status status =
      kCpuBackward.launch(plan, bindings, workspace.data(), shuffled);
  EXPECT_TRUE(status.ok()) << status.message();
}

class BackwardFenced : public ::testing::TestWithParam<int64_t> {
 protected:
  static void Check(const AttentionProblem& p, Random& random) {
    if (!kCpuBackward.supports(p, {}).ok()) return;
    SmallCase small(p);
    small.FillInputs(random);
    RunForwardTwin(small);
    const FencedTensors ends(small, FencedBytes::Side::kEnd);
    const FencedTensors starts(small, FencedBytes::Side::kStart);
    const FencedTensors many(small, FencedBytes::Side::kEnd);
    Launch(p, small.bindings(), 1);
    Launch(p, ends.bindings(), 2);
    Launch(p, starts.bindings(), 3);
    Launch(p, many.bindings(), 5);
    for (const Slot slot :
         {Slot::kGradQuery, Slot::kGradQueryRope, Slot::kGradKey,
          Slot::kGradKeyRope, Slot::kGradValue, Slot::kGradBias,
          Slot::kGradSink}) {
      const auto& expected = small.bytes(slot);
      if (expected.empty()) continue;
      for (const FencedTensors* other : {&ends, &starts, &many}) {
        EXPECT_EQ(std::memcmp(expected.data(), other->bindings()[slot],
                              expected.size()),
                  0)
            << Name(slot);
      }
    }
  }

  static void Check(const std::string& line, Random& random) {
    SCOPED_TRACE(line);
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    Check(*problem, random);
  }

  const OnTarget target_{GetParam()};
};

TEST_P(BackwardFenced, SmallProblemsStayInside) {
  Space space;
  space.forward = false;
  ForRandomProblems(300, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random);
  });
}

// Several tiles add to the same keys.
TEST_P(BackwardFenced, LongProblemsStayInsideAndTakeTurns) {
  Random random(5);
  for (const char* line :
       {"bwd f32 h=6/3 d=20 q=500 k=300 causal",
        "bwd bf16 h=2 d=33/17 q=300,290 k=130,500 window:70:9 sink",
        "bwd f16 h=5 d=8 q=400,0,260 k=20,30,210 mask keep:0.7"}) {
    Check(line, random);
  }
}

// Channels and keys around every size of a block.
TEST_P(BackwardFenced, EverySizeOfABlockStaysInside) {
  Random random(3);
  for (int64_t size = 0; size <= 40; ++size) {
    for (const char* rest : {"q=5 k=110", "q=40 k=13 causal"}) {
      for (const char* dtype : {"f32", "f16", "bf16"}) {
        Check(Str("bwd {} h=1 d={} {}", dtype, size, rest), random);
      }
    }
  }
}

TEST_P(BackwardFenced, EveryGradientAloneStaysInside) {
  Random random(4);
  for (const char* wanted : {"q", "k", "v", "kv", "qb", "b"}) {
    for (const char* bias :
         {"bias", "bias:hij", "bias:j", "alibi", "causal bias:diagonal:7"}) {
      Check(Str("bwd f32 h=2/1 d=9/5 q=20 k=20 {} grad:{}", bias, wanted),
            random);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, BackwardFenced,
    ::testing::ValuesIn(testing::TargetsHere(BackwardTargets())),
    testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
