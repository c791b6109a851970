// SPDX-License-Identifier: Apache-2.0
// Verify accepts the reference, and finds each way to be wrong.
#include "verify/verify.h"

#include <gtest/gtest.h>

#include "backends.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tests/testing/around_reference.h"
#include "tests/testing/generator.h"
#include "tests/testing/locked_backend.h"

namespace flashacl {
namespace {

using testing::kAroundReference;
using testing::PrepareFunction;
using testing::ReferenceRun;

constexpr char kForward[] = "fwd f32 h=2 d=8 q=6,3 k=10,4 causal stats";

const Implementation& Reference() {
  return CpuBackend().implementations.back();
}

Result<std::vector<Verdict>> VerifyOn(const Backend& backend,
                                      const AttentionProblem& problem,
                                      std::string_view only = {}) {
  return Verify(backend, problem, 1, only, [](std::string_view) {});
}

TEST(Verify, AcceptsTheReferenceOnRandomProblems) {
  testing::ForRandomProblems(
      100, {.most_rows = 12, .most_columns = 20, .most_dim = 20},
      [](const AttentionProblem& problem, Random&) {
        const auto verdicts = VerifyOn(CpuBackend(), problem);
        ASSERT_TRUE(verdicts.ok()) << verdicts.status().message();
        for (const Verdict& verdict : *verdicts) {
          EXPECT_TRUE(verdict.ok()) << verdict.faults.front();
        }
      });
}

// Filling, running and comparing touch memory on the backend's queue alone.
TEST(Verify, NeedsNoMemoryThatTheHostCanTouch) {
  for (const Backend* backend :
       {&testing::LockedBackend(), &testing::LateBackend()}) {
    testing::ForRandomProblems(
        200, {.most_rows = 12, .most_columns = 20, .most_dim = 20},
        [&](const AttentionProblem& problem, Random&) {
          const auto verdicts = VerifyOn(*backend, problem);
          ASSERT_TRUE(verdicts.ok()) << verdicts.status().message();
          for (const Verdict& verdict : *verdicts) {
            EXPECT_TRUE(verdict.ok()) << verdict.faults.front();
          }
        });
  }
}

// Ways to be wrong: each runs the reference and then does one thing more.
Status Right(const ReferenceRun& run) { return run.Do(); }

float& FirstOut(const Bindings& bindings) {
  return *reinterpret_cast<float*>(bindings[Slot::kOut]);
}

Status TooLarge(const ReferenceRun& run) {
  const Status ran = Right(run);
  FirstOut(run.bindings) += 0.01f;
  return ran;
}

Status NotANumber(const ReferenceRun& run) {
  const Status ran = Right(run);
  FirstOut(run.bindings) /= 0.0f;
  return ran;
}

Status BeyondOut(const ReferenceRun& run) {
  const TensorSpec& out = run.problem()[Slot::kOut];
  run.bindings[Slot::kOut][out.dims[1] * out.strides[1] * 4] = std::byte{1};
  return Right(run);
}

Status IntoQuery(const ReferenceRun& run) {
  run.bindings[Slot::kQuery][0] ^= std::byte{1};
  return Right(run);
}

Status BeyondWorkspace(const ReferenceRun& run) {
  run.workspace[run.workspace_bytes] = std::byte{1};
  return Right(run);
}

Status OtherEachTime(const ReferenceRun& run) {
  static int runs = 0;
  const Status ran = Right(run);
  FirstOut(run.bindings) += static_cast<float>(++runs % 2) * 1e-7f;
  return ran;
}

Status LastOneWins(const ReferenceRun& run) {
  const Status ran = Right(run);
  int64_t last = 0;
  if (run.workers.count() == 1)
    run.workers.ForEach(2, [&](int64_t n) { last = n; });
  FirstOut(run.bindings) +=
      last == 0 && run.workers.count() == 1 ? 1e-7f : 0.0f;
  return ran;
}

Status Fails(const ReferenceRun&) { return RuntimeFailure("out of ink"); }

struct Wrong {
  PrepareFunction prepare;
  const char* found;
};

Verdict VerdictOf(PrepareFunction prepare) {
  Implementation wrong = Reference();
  wrong.name = "test/wrong";
  wrong.prepare = prepare;
  const Implementation table[] = {wrong, Reference()};
  Backend backend = CpuBackend();
  backend.implementations = table;
  const auto verdicts = VerifyOn(backend, *Parse(kForward));
  EXPECT_TRUE(verdicts.ok()) << verdicts.status().message();
  EXPECT_EQ(verdicts->size(), 2u);
  EXPECT_TRUE(verdicts->back().ok());  // the reference is not to blame
  return verdicts->front();
}

TEST(Verify, FindsEachWayToBeWrong) {
  const Wrong ways[] = {
      {kAroundReference<TooLarge>, "out: "},
      {kAroundReference<NotANumber>, "out: "},
      {kAroundReference<BeyondOut>, "out"},
      {kAroundReference<IntoQuery>, "input"},
      {kAroundReference<BeyondWorkspace>, "workspace: written outside"},
      {kAroundReference<OtherEachTime>, "a second run gives other bits"},
      {kAroundReference<LastOneWins>,
       "one worker going backwards gives other bits"},
      {kAroundReference<Fails>, "out of ink"},
  };
  for (const Wrong& wrong : ways) {
    const Verdict verdict = VerdictOf(wrong.prepare);
    ASSERT_FALSE(verdict.ok()) << wrong.found;
    EXPECT_NE(verdict.faults.front().find(wrong.found), std::string::npos)
        << verdict.faults.front();
  }
  EXPECT_TRUE(VerdictOf(kAroundReference<Right>).ok());
}

TEST(Verify, ReportsWhoDoesNotTakeTheProblem) {
  Implementation picky = Reference();
  picky.name = "test/picky";
  picky.supports = [](const AttentionProblem&, const DeviceInfo&) {
    return Unsupported("not on a Sunday");
  };
  const Implementation table[] = {picky, Reference()};
  Backend backend = CpuBackend();
  backend.implementations = table;
  const auto verdicts = VerifyOn(backend, *Parse(kForward));
  ASSERT_TRUE(verdicts.ok());
  EXPECT_NE((*verdicts)[0].refusal.find("not on a Sunday"), std::string::npos);
  EXPECT_TRUE((*verdicts)[0].ok());
  EXPECT_TRUE((*verdicts)[1].refusal.empty());
}

TEST(Verify, OnlyOneOrNone) {
  const auto one = VerifyOn(CpuBackend(), *Parse(kForward), Reference().name);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->size(), 1u);
  EXPECT_EQ(one->front().differences.size(), 3u);
  EXPECT_FALSE(VerifyOn(CpuBackend(), *Parse(kForward), "cpu/none").ok());
}

}  // namespace
}  // namespace flashacl
