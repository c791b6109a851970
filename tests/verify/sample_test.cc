// SPDX-License-Identifier: Apache-2.0
// Samples repeat, guard their memory, and are what their comment promises.
#include "verify/sample.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/number.h"
#include "plan/host_memory.h"
#include "plan/host_queue.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "reference/reference.h"
#include "tests/testing/generator.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl {
namespace {

class SampleTest : public ::testing::Test {
 protected:
  Result<Sample> Make(const AttentionProblem& problem, uint64_t seed) {
    return Sample::Make(problem, seed, backend_);
  }

  Status RunReference(const Sample& sample) {
    const Result<Plan> plan = MakePlan(backend_, sample.problem());
    if (!plan.ok()) return plan.status();
    const GuardedBytes workspace =
        GuardedBytes::Allocate(HostMemory::Get(), plan->workspace.bytes());
    FLASHACL_RETURN_IF_ERROR(flashacl::Run(
        *backend_.queue, *plan, sample.bindings(), workspace.data()));
    if (!workspace.GuardsIntact()) return Internal("workspace overrun");
    return {};
  }

  ShuffledWorkers workers_{1};
  HostQueue queue_{workers_};
  Backend backend_{"test", {}, {&kReference, 1}, &HostMemory::Get(), &queue_};
};

bool SameInputs(const Sample& a, const Sample& b) {
  for (size_t index = 0; index < kSlots; ++index) {
    const auto slot = static_cast<Slot>(index);
    if (IsOutput(a.problem().direction, slot)) continue;
    const auto one = a.bytes(slot);
    const auto other = b.bytes(slot);
    if (one.size() != other.size()) return false;
    if (!std::equal(one.begin(), one.end(), other.begin())) return false;
  }
  return true;
}

TEST_F(SampleTest, RepeatsForTheSameSeed) {
  testing::ForRandomProblems(
      300, {}, [&](const AttentionProblem& problem, Random&) {
        const Result<Sample> a = Make(problem, 5);
        const Result<Sample> b = Make(WithWideResults(problem), 5);
        ASSERT_TRUE(a.ok()) << a.status().message();
        ASSERT_TRUE(b.ok()) << b.status().message();
        EXPECT_TRUE(SameInputs(*a, *b));
        EXPECT_TRUE(a->CheckUntouched().ok()) << a->CheckUntouched().message();
      });
  const Result<AttentionProblem> problem = Parse("fwd f32 h=2 d=8 q=4 k=9");
  EXPECT_FALSE(SameInputs(*Make(*problem, 1), *Make(*problem, 2)));
}

// The reference writes every element of its outputs, and nothing else.
TEST_F(SampleTest, TheReferenceTouchesItsOutputsOnly) {
  testing::ForRandomProblems(
      600, {}, [&](const AttentionProblem& problem, Random&) {
        const Result<Sample> sample = Make(problem, 11);
        ASSERT_TRUE(sample.ok()) << sample.status().message();
        const Status status = RunReference(*sample);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_TRUE(sample->CheckUntouched().ok())
            << sample->CheckUntouched().message();
        const TensorSpec& out = problem[Slot::kOut];
        if (problem.direction != Direction::kForward) return;
        if (!IsFloat(out.dtype)) return;
        const std::byte* at = sample->bindings()[Slot::kOut];
        const int64_t planes = out.strides[0] == 0 ? 1 : out.dims[0];
        for (int64_t b = 0; b < planes; ++b) {
          for (int64_t i = 0; i < out.dims[1]; ++i) {
            for (int64_t h = 0; h < out.dims[2]; ++h) {
              for (int64_t d = 0; d < out.dims[3]; ++d) {
                const int64_t offset = out.At(b, i, h, d) * SizeOf(out.dtype);
                ASSERT_TRUE(std::isfinite(ReadNumber(out.dtype, at + offset)))
                    << b << " " << i << " " << h << " " << d;
              }
            }
          }
        }
      });
}

TEST_F(SampleTest, ResettingForgetsARun) {
  const Result<AttentionProblem> problem =
      Parse("bwd bf16 h=4/2 d=8 q=3,4 k=5,6 causal");
  Result<Sample> sample = Make(*problem, 3);
  ASSERT_TRUE(sample.ok()) << sample.status().message();
  const std::vector<std::byte> before = sample->Outputs();
  ASSERT_TRUE(RunReference(*sample).ok());
  const std::vector<std::byte> first = sample->Outputs();
  EXPECT_NE(before, first);
  sample->ResetOutputs();
  EXPECT_EQ(sample->Outputs(), before);
  ASSERT_TRUE(RunReference(*sample).ok());
  EXPECT_EQ(sample->Outputs(), first);
}

TEST_F(SampleTest, SeesEveryStrayWrite) {
  const Result<AttentionProblem> line = Parse("fwd f32 h=2 d=4 q=3 k=5 list");
  AttentionProblem problem = *line;
  problem[Slot::kOut].strides = {0, 16, 6, 1};  // room after every head
  const auto message = [&](auto write) {
    const Result<Sample> sample = Make(problem, 3);
    EXPECT_TRUE(sample.ok()) << sample.status().message();
    EXPECT_TRUE(sample->CheckUntouched().ok());
    write(sample->bindings());
    return sample->CheckUntouched().message();
  };
  const std::byte zero{0};
  const int64_t end = (2 * 16 + 6 + 4) * 4;
  EXPECT_EQ(message([&](Bindings b) { b[Slot::kOut][0] = zero; }), "");
  EXPECT_EQ(message([&](Bindings b) { b[Slot::kOut][end] = zero; }),
            "out: written outside of the tensor");
  EXPECT_EQ(message([&](Bindings b) { b[Slot::kOut][-1] = zero; }),
            "out: written outside of the tensor");
  EXPECT_EQ(message([&](Bindings b) { b[Slot::kOut][16] = zero; }),
            "out: written between its elements");
  EXPECT_EQ(message([&](Bindings b) { b[Slot::kQuery][5] ^= std::byte{1}; }),
            "an input was written");
  EXPECT_EQ(message([&](Bindings b) { b.key_list[0][5] ^= std::byte{1}; }),
            "an input was written");
  EXPECT_EQ(message([&](Bindings b) { b.value_list[0][-2] = zero; }),
            "list of keys: written outside of a tensor");
}

TEST_F(SampleTest, RefusesWhatCannotBe) {
  AttentionProblem problem = *Parse("fwd f32 h=2 d=4 q=3 k=5");
  problem[Slot::kOut] = {};
  EXPECT_EQ(Make(problem, 1).status().code(), Code::kNullArgument);
  EXPECT_EQ(
      Make(*Parse("fwd f32 h=1 d=4096 q=1099511627775 k=5"), 1).status().code(),
      Code::kOutOfMemory);
}

TEST(IsOutput, IsWhatTheDirectionWrites) {
  EXPECT_TRUE(IsOutput(Direction::kForward, Slot::kRowSum));
  EXPECT_FALSE(IsOutput(Direction::kBackward, Slot::kOut));
  EXPECT_FALSE(IsOutput(Direction::kBackward, Slot::kGradOut));
  EXPECT_TRUE(IsOutput(Direction::kBackward, Slot::kGradSink));
}

}  // namespace
}  // namespace flashacl
