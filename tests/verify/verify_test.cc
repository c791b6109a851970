// SPDX-License-Identifier: Apache-2.0
// Verify accepts the reference, and finds each way to be wrong.
#include "verify/verify.h"

#include <gtest/gtest.h>

#include "backends.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

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

// Ways to be wrong: each runs the reference and then does one thing more.
Status Right(const Plan& plan, const Bindings& bindings, std::byte* workspace,
             Workers& workers) {
  return Reference().launch(plan, bindings, workspace, workers);
}

float& FirstOut(const Bindings& bindings) {
  return *reinterpret_cast<float*>(bindings[Slot::kOut]);
}

Status TooLarge(const Plan& plan, const Bindings& bindings,
                std::byte* workspace, Workers& workers) {
  const Status ran = Right(plan, bindings, workspace, workers);
  FirstOut(bindings) += 0.01f;
  return ran;
}

Status NotANumber(const Plan& plan, const Bindings& bindings,
                  std::byte* workspace, Workers& workers) {
  const Status ran = Right(plan, bindings, workspace, workers);
  FirstOut(bindings) /= 0.0f;
  return ran;
}

Status BeyondOut(const Plan& plan, const Bindings& bindings,
                 std::byte* workspace, Workers& workers) {
  const TensorSpec& out = plan.problem[Slot::kOut];
  bindings[Slot::kOut][out.dims[1] * out.strides[1] * 4] = std::byte{1};
  return Right(plan, bindings, workspace, workers);
}

Status IntoQuery(const Plan& plan, const Bindings& bindings,
                 std::byte* workspace, Workers& workers) {
  bindings[Slot::kQuery][0] ^= std::byte{1};
  return Right(plan, bindings, workspace, workers);
}

Status BeyondWorkspace(const Plan& plan, const Bindings& bindings,
                       std::byte* workspace, Workers& workers) {
  workspace[plan.workspace.bytes()] = std::byte{1};
  return Right(plan, bindings, workspace, workers);
}

Status OtherEachTime(const Plan& plan, const Bindings& bindings,
                     std::byte* workspace, Workers& workers) {
  static int runs = 0;
  const Status ran = Right(plan, bindings, workspace, workers);
  FirstOut(bindings) += static_cast<float>(++runs % 2) * 1e-7f;
  return ran;
}

Status LastOneWins(const Plan& plan, const Bindings& bindings,
                   std::byte* workspace, Workers& workers) {
  const Status ran = Right(plan, bindings, workspace, workers);
  int64_t last = 0;
  if (workers.count() == 1) workers.ForEach(2, [&](int64_t n) { last = n; });
  FirstOut(bindings) += last == 0 && workers.count() == 1 ? 1e-7f : 0.0f;
  return ran;
}

Status Fails(const Plan&, const Bindings&, std::byte*, Workers&) {
  return RuntimeFailure("out of ink");
}

struct Wrong {
  decltype(Implementation::launch) launch;
  const char* found;
};

Verdict VerdictOf(decltype(Implementation::launch) launch) {
  Implementation wrong = Reference();
  wrong.name = "test/wrong";
  wrong.launch = launch;
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
      {TooLarge, "out: "},
      {NotANumber, "out: "},
      {BeyondOut, "out"},
      {IntoQuery, "input"},
      {BeyondWorkspace, "workspace: written outside"},
      {OtherEachTime, "a second run gives other bits"},
      {LastOneWins, "one worker going backwards gives other bits"},
      {Fails, "out of ink"},
  };
  for (const Wrong& wrong : ways) {
    const Verdict verdict = VerdictOf(wrong.launch);
    ASSERT_FALSE(verdict.ok()) << wrong.found;
    EXPECT_NE(verdict.faults.front().find(wrong.found), std::string::npos)
        << verdict.faults.front();
  }
  EXPECT_TRUE(VerdictOf(Right).ok());
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
