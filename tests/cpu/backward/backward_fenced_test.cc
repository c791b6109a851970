// SPDX-License-Identifier: Apache-2.0
// Backward reads and writes its tensors and its workspace, and not one byte
// more: on every instruction set, between pages that nobody may touch. The same
// bits, whoever works.
#include <gtest/gtest.h>

#include <string>

#include "base/str.h"
#include "cpu/backward/backward.h"
#include "cpu/backward/backward_kernel.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"

namespace flashacl::cpu {
namespace {

using testing::ExpectStaysInside;
using testing::ForRandomProblems;
using testing::OnTarget;
using testing::ProblemOf;
using testing::Space;

class BackwardFenced : public ::testing::TestWithParam<int64_t> {
 protected:
  static void Check(const AttentionProblem& p, Random& random) {
    if (!kCpuBackward.supports(p, {}).ok()) return;
    SmallCase small(p);
    small.FillInputs(random);
    RunForwardTwin(small);
    ExpectStaysInside(kCpuBackward, small, {2, 3, 5});
  }

  static void Check(const std::string& line, Random& random) {
    SCOPED_TRACE(line);
    Check(ProblemOf(line), random);
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
