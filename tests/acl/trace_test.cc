// SPDX-License-Identifier: Apache-2.0
// FLASHACL_TRACE: one line per plan and one per launch, each of the documented
// shape, and nothing at all where nobody asked. The environment is read once
// per process, so every case runs in a child.
#include "acl/trace.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "problem/notation.h"
#include "tests/testing/child.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::acl {
namespace {

using testing::RunChild;
using testing::TinyCall;

constexpr int kLaunches = 3;

// One plan, and three launches of it.
void PlanAndLaunch() {
  TinyCall call(3);
  call.SetValue(2.5f);
  ASSERT_EQ(call.Prepare(), 0);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(call.executor), 0);
  std::vector<char> workspace(call.workspace_size);
  for (int i = 0; i < kLaunches; ++i) {
    ASSERT_EQ(
        Launch(workspace.data(), workspace.size(), call.executor, nullptr), 0);
  }
  ASSERT_EQ(aclrtSynchronizeStream(nullptr), 0);
  ASSERT_EQ(aclDestroyAclOpExecutor(call.executor), 0);
  EXPECT_EQ(call.out_data[0], 2.5f);
}

// A file name that is free again when the test ends.
class TemporaryFile {
 public:
  TemporaryFile() {
    const int file = mkstemp(path_);
    EXPECT_GE(file, 0);
    close(file);
  }
  ~TemporaryFile() { unlink(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return path_; }

  std::vector<std::string> Lines() const {
    std::ifstream file(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

 private:
  char path_[32] = "/tmp/flashacl_trace_XXXXXX";
};

// A child, which tests of written traces start.
TEST(TraceChild, DISABLED_Asked) {
  EXPECT_TRUE(Tracing());
  PlanAndLaunch();
}

// A child, which Trace.IsOffWhereItCannotBeWritten starts.
TEST(TraceChild, DISABLED_NotAsked) {
  EXPECT_FALSE(Tracing());
  PlanAndLaunch();
}

TEST(Trace, WritesALinePerPlanAndPerLaunch) {
  const TemporaryFile file;
  const auto child =
      RunChild("TraceChild.DISABLED_Asked", {{"FLASHACL_TRACE", file.path()}});
  ASSERT_TRUE(child.ok()) << child.output;
  const std::vector<std::string> lines = file.Lines();
  ASSERT_EQ(lines.size(), 1u + kLaunches);
  // seconds, what, operator, problem, implementation, microseconds
  const std::regex shape(R"re((\d+\.\d{6}) (plan|launch) tiny "([^"]+)" )re"
                         R"re(([a-z0-9_]+(?:/[a-z0-9_]+)+) (\d+\.\d) us)re");
  std::string problem;
  std::string implementation;
  double before = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch part;
    ASSERT_TRUE(std::regex_match(lines[i], part, shape)) << lines[i];
    EXPECT_EQ(part.str(2), i == 0 ? "plan" : "launch");
    EXPECT_GE(std::stod(part.str(1)), before) << lines[i];
    before = std::stod(part.str(1));
    if (i == 0) {
      problem = part.str(3);
      implementation = part.str(4);
    }
    EXPECT_EQ(part.str(3), problem);
    EXPECT_EQ(part.str(4), implementation);
  }
  // The line is one that other tools take.
  const auto parsed = Parse(problem);
  ASSERT_TRUE(parsed.ok()) << problem << ": " << parsed.status().message();
  EXPECT_EQ(ToString(*parsed), problem);
}

TEST(Trace, AppendsToWhatIsThere) {
  const TemporaryFile file;
  for (size_t run = 1; run <= 2; ++run) {
    const auto child = RunChild("TraceChild.DISABLED_Asked",
                                {{"FLASHACL_TRACE", file.path()}});
    ASSERT_TRUE(child.ok()) << child.output;
    EXPECT_EQ(file.Lines().size(), run * (1 + kLaunches));
  }
}

// A child, which Trace.HasFailedCalls starts.
TEST(TraceChild, DISABLED_Fails) {
  TinyCall call(3);
  ASSERT_EQ(call.Prepare(), 0);
  EXPECT_NE(Launch(nullptr, 0, call.executor, nullptr), 0);
  const std::vector<Passed> passed{
      static_cast<const aclTensor*>(nullptr), call.key, call.value,
      static_cast<const aclTensor*>(nullptr), call.out};
  EXPECT_NE(Prepare(testing::kTinyOperator, passed, testing::LowerTiny,
                    {&call.workspace_size, &call.executor}),
            0);
}

TEST(Trace, HasFailedCalls) {
  const TemporaryFile file;
  const auto child =
      RunChild("TraceChild.DISABLED_Fails", {{"FLASHACL_TRACE", file.path()}});
  ASSERT_TRUE(child.ok()) << child.output;
  const std::vector<std::string> lines = file.Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[1].find(" launch tiny failed \"tiny: workspace"),
            std::string::npos)
      << lines[1];
  EXPECT_NE(lines[2].find(" plan tiny failed \"The query cannot be nullptr.\""),
            std::string::npos)
      << lines[2];
}

// A trace must not change what a program does, not even one that cannot be
// written.
TEST(Trace, IsOffWhereItCannotBeWritten) {
  for (const char* path : {"", "/no/such/folder/trace"}) {
    const auto child =
        RunChild("TraceChild.DISABLED_NotAsked", {{"FLASHACL_TRACE", path}});
    EXPECT_TRUE(child.ok()) << path << child.output;
    const bool said = child.output.find(
                          "FlashACL: FLASHACL_TRACE=/no/such/folder/trace is "
                          "ignored: No such file") != std::string::npos;
    EXPECT_EQ(said, *path != '\0') << child.output;
  }
}

}  // namespace
}  // namespace flashacl::acl
