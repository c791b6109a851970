// SPDX-License-Identifier: Apache-2.0
// What a file of workloads may say, and that ours say what can be computed.
#include "tools/flashacl/workloads.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "backends.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "verify/fill.h"

namespace flashacl::tool {
namespace {

class WorkloadFile : public ::testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  ~WorkloadFile() override { std::remove(path_.c_str()); }

  const std::string path_ =
      ::testing::TempDir() + "workloads_" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::vector<Workload> workloads_;
};

TEST_F(WorkloadFile, HasTitlesCommentsAndProblems) {
  Write(
      "# a comment | fwd\n\n"
      "  Some model, 1 x 5 |  fwd f32 h=2 d=8 q=1 k=5 causal \r\n"
      "fwd bf16 h=1 d=4 q=3 k=3\n");
  const Status added = AddWorkloads(path_, workloads_);
  ASSERT_TRUE(added.ok()) << added.message();
  ASSERT_EQ(workloads_.size(), 2u);
  EXPECT_EQ(workloads_[0].title, "Some model, 1 x 5");
  EXPECT_EQ(ToString(workloads_[0].problem), "fwd f32 h=2 d=8 q=1 k=5 causal");
  EXPECT_EQ(workloads_[1].title, "");
}

TEST_F(WorkloadFile, NamesTheLineThatIsWrong) {
  Write("# first\ngood | fwd f32 h=2 d=8 q=1 k=5\nbad | fwd f32 h=2 q=1 k=5\n");
  const Status added = AddWorkloads(path_, workloads_);
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.message().find(path_ + ":3: "), std::string::npos)
      << added.message();
}

TEST_F(WorkloadFile, MustNotBeEmpty) {
  Write("# nothing\n");
  workloads_.resize(1);  // of another file
  EXPECT_NE(AddWorkloads(path_, workloads_).message().find("no problem in it"),
            std::string::npos);
}

TEST_F(WorkloadFile, MayBeALineInstead) {
  ASSERT_TRUE(AddWorkloads("fwd f32 h=2 d=8 q=1 k=5", workloads_).ok());
  ASSERT_TRUE(AddWorkloads("mine | fwd f32 h=2 d=8 q=1 k=5", workloads_).ok());
  EXPECT_EQ(workloads_.back().title, "mine");
  const Status neither = AddWorkloads("/no/such/file", workloads_);
  EXPECT_NE(neither.message().find("no such file"), std::string::npos);
}

std::vector<Workload> OurOwn() {
  std::vector<Workload> all;
  for (const char* name :
       {"prefill", "decode", "training", "latent", "fused_infer"}) {
    const std::string path =
        std::string(FLASHACL_SOURCE_DIR "/bench/workloads/") + name + ".txt";
    const size_t before = all.size();
    const Status added = AddWorkloads(path, all);
    EXPECT_TRUE(added.ok()) << added.message();
    EXPECT_GE(all.size(), before + 10) << name;
  }
  return all;
}

TEST(OurWorkloads, AreProblemsThatSomebodyPlans) {
  std::set<std::string> titles;
  for (const Workload& workload : OurOwn()) {
    SCOPED_TRACE(workload.title);
    EXPECT_FALSE(workload.title.empty());
    EXPECT_TRUE(titles.insert(workload.title).second) << "twice";
    const Status possible = CheckProblem(workload.problem);
    EXPECT_TRUE(possible.ok()) << possible.message();
    for (const Backend& backend : AllBackends()) {
      const Result<Plan> plan = MakePlan(backend, workload.problem);
      EXPECT_TRUE(plan.ok()) << plan.status().message();
    }
  }
}

// A repetition of a good implementation on a small machine is over in seconds,
// and its operands fit there.
TEST(OurWorkloads, AreNotTooMuchForASmallMachine) {
  for (const Workload& workload : OurOwn()) {
    SCOPED_TRACE(workload.title);
    EXPECT_LT(CountCost(workload.problem).flops, 1.5e11);
    int64_t bytes = 0;
    for (size_t n = 0; n < kSlots; ++n) {
      bytes += BytesOf(workload.problem, static_cast<Slot>(n));
    }
    EXPECT_LT(bytes, int64_t{1} << 30);
  }
}

// So a training file has both directions of what it trains, and so on.
TEST(OurWorkloads, CoverWhatOperatorsHave) {
  bool backward = false, paged = false, int8 = false, gathered = false;
  bool sink = false, keep = false, bias = false, rope = false;
  for (const Workload& workload : OurOwn()) {
    const AttentionProblem& problem = workload.problem;
    backward = backward || problem.direction == Direction::kBackward;
    paged = paged || problem.kv.rows == KvSource::Rows::kPaged;
    gathered = gathered || problem.kv.gathers();
    int8 = int8 || problem.has(Slot::kKeyScale);
    sink = sink || problem.has(Slot::kSink);
    keep = keep || problem.has(Slot::kKeep);
    bias = bias || problem.has(Slot::kBias);
    rope = rope || problem.rope_dim > 0;
  }
  EXPECT_TRUE(backward && paged && int8 && gathered);
  EXPECT_TRUE(sink && keep && bias && rope);
}

TEST(Workloads, LinesNeedNoQuotes) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(JoinLines({"fwd", "f32", "h=1"}), Words{"fwd f32 h=1"});
  EXPECT_EQ(JoinLines({"a.txt", "fwd", "f32", "bwd", "f16", "-"}),
            (Words{"a.txt", "fwd f32", "bwd f16", "-"}));
  EXPECT_EQ(JoinLines({"fwd f32 h=1", "a.txt"}),
            (Words{"fwd f32 h=1", "a.txt"}));
  EXPECT_EQ(JoinLines({}), Words{});
}

}  // namespace
}  // namespace flashacl::tool
