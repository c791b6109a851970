// SPDX-License-Identifier: Apache-2.0
// The tolerance lets correct roundings pass and catches what is wrong.
#include "verify/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

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

class CompareTest : public ::testing::Test {
 protected:
  // A sample whose outputs the reference has written.
  Result<Sample> Computed(const AttentionProblem& problem) {
    Result<Sample> sample = Sample::Make(problem, 17, backend_);
    if (!sample.ok()) return sample;
    const Result<Plan> plan = MakePlan(backend_, problem);
    if (!plan.ok()) return plan.status();
    const GuardedBytes workspace =
        GuardedBytes::Allocate(HostMemory::Get(), plan->workspace.bytes());
    FLASHACL_RETURN_IF_ERROR(flashacl::Run(
        *backend_.queue, *plan, sample->bindings(), workspace.data()));
    return sample;
  }

  // What comparing says of `slot` after `change` of its first element.
  template <typename Change>
  Difference After(const char* line, Slot slot, Change change) {
    const AttentionProblem problem = *Parse(line);
    const Result<Sample> got = Computed(problem);
    const Result<Sample> truth = Computed(WithWideResults(problem));
    const DType dtype = problem[slot].dtype;
    std::byte* at = got->bindings()[slot];
    WriteNumber(dtype, at, change(ReadNumber(dtype, at)));
    for (const Difference& one : Compare(*got, *truth)) {
      if (one.slot == slot) return one;
    }
    ADD_FAILURE() << "slot is not compared";
    return {};
  }

  ShuffledWorkers workers_{1};
  HostQueue queue_{workers_};
  Backend backend_{"test", {}, {&kReference, 1}, &HostMemory::Get(), &queue_};
};

TEST_F(CompareTest, OneRoundingIsWithinWhatIsAllowed) {
  testing::ForRandomProblems(
      500, {}, [&](const AttentionProblem& problem, Random&) {
        const Result<Sample> got = Computed(problem);
        const Result<Sample> truth = Computed(WithWideResults(problem));
        ASSERT_TRUE(got.ok()) << got.status().message();
        ASSERT_TRUE(truth.ok()) << truth.status().message();
        for (const Difference& one : Compare(*got, *truth)) {
          EXPECT_TRUE(one.ok()) << Describe(one);
        }
      });
}

constexpr char kForward[] = "fwd bf16 h=2 d=64 q=20 k=50 stats";
constexpr char kBackward[] = "bwd f16 h=2 d=64 q=20 k=50";

TEST_F(CompareTest, CatchesWhatIsFarOff) {
  for (Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
    SCOPED_TRACE(Name(slot));
    EXPECT_TRUE(After(kForward, slot, [](double x) { return x; }).ok());
    const auto much = [](double x) { return x * 1.1 + 0.1; };
    const Difference wrong = After(kForward, slot, much);
    EXPECT_EQ(wrong.wrong, 1);
    EXPECT_EQ(wrong.worst, 0);
    EXPECT_GT(wrong.max_share, 1);
    EXPECT_NE(Describe(wrong).find("farther off"), std::string::npos);
  }
  for (Slot slot : {Slot::kGradQuery, Slot::kGradKey, Slot::kGradValue}) {
    SCOPED_TRACE(Name(slot));
    EXPECT_TRUE(After(kBackward, slot, [](double x) { return x; }).ok());
    const auto much = [](double x) { return x + 0.1; };
    EXPECT_EQ(After(kBackward, slot, much).wrong, 1);
  }
}

TEST_F(CompareTest, CatchesOtherKindsOfNumbers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto nan = [](double) { return std::nan(""); };
  const auto infinite = [](double) { return kInfinity; };
  EXPECT_EQ(After(kForward, Slot::kOut, nan).special, 1);
  EXPECT_EQ(After(kForward, Slot::kOut, infinite).special, 1);
  EXPECT_FALSE(After(kBackward, Slot::kGradKey, nan).ok());
}

// The same the other way round: of what should be infinite, a number is wrong.
TEST_F(CompareTest, CatchesNumbersThatShouldBeInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const AttentionProblem problem = *Parse("fwd f32 h=1 d=4 q=3 k=5");
  const Result<Sample> got = Computed(problem);
  const Result<Sample> truth = Computed(problem);
  const auto special = [&](float number, float expected) {
    std::memcpy(got->bindings()[Slot::kOut], &number, sizeof(number));
    std::memcpy(truth->bindings()[Slot::kOut], &expected, sizeof(expected));
    return Compare(*got, *truth)[0].special;
  };
  EXPECT_EQ(special(kInfinity, kInfinity), 0);
  EXPECT_EQ(special(-kInfinity, -kInfinity), 0);
  EXPECT_EQ(special(3e38f, kInfinity), 1);
  EXPECT_EQ(special(-3e38f, -kInfinity), 1);
  EXPECT_EQ(special(-kInfinity, kInfinity), 1);
}

// Rows that see nothing are exactly zero.
TEST_F(CompareTest, CatchesRowsThatShouldBeZero) {
  constexpr char kNothing[] = "fwd f32 h=1 d=4 q=3 k=5 band:9:*";
  EXPECT_TRUE(After(kNothing, Slot::kOut, [](double x) { return x; }).ok());
  const auto tiny = [](double) { return 1e-40; };
  EXPECT_EQ(After(kNothing, Slot::kOut, tiny).zero_rows, 1);
}

TEST_F(CompareTest, AllowsOneStepOfQuantisedResults) {
  constexpr char kInt8[] = "fwd f16 h=1 d=16 q=3 k=5 out:int8:tensor";
  const auto step = [](double x) { return x < 127 ? x + 1 : x - 1; };
  const auto steps = [](double x) { return x < 126 ? x + 2 : x - 2; };
  EXPECT_TRUE(After(kInt8, Slot::kOut, step).ok());
  EXPECT_EQ(After(kInt8, Slot::kOut, steps).wrong, 1);
}

TEST(ToleranceOf, GrowsWithRoundoff) {
  const auto allowed = [](const char* line) {
    return ToleranceOf(*Parse(line), Slot::kOut, 1).absolute;
  };
  const double f32 = allowed("fwd f32 h=1 d=64 q=8 k=64");
  const double f16 = allowed("fwd f16 h=1 d=64 q=8 k=64");
  const double bf16 = allowed("fwd bf16 h=1 d=64 q=8 k=64");
  EXPECT_LT(f32, 5e-5);
  EXPECT_LT(f32, f16);
  EXPECT_LT(f16, bf16);
  EXPECT_LT(bf16, 1e-2);
  EXPECT_LT(f32, allowed("fwd f32 h=1 d=64 q=8 k=4096"));
}

}  // namespace
}  // namespace flashacl
