// SPDX-License-Identifier: Apache-2.0
// FLASHACL_TRACE=file.json: the timeline of a process, however it ends, and of
// its forked children. The environment is read once per process, so every case
// runs in a child.
#include "acl/profile/trace_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/trace.h"
#include "base/str.h"
#include "tests/acl/profile/trace_reader.h"
#include "tests/testing/child.h"
#include "tests/testing/fork.h"
#include "tests/testing/runtime.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::acl::profile {
namespace {

using ::flashacl::testing::ReadTrace;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::Succeeds;
using ::flashacl::testing::TemporaryFolder;
using ::flashacl::testing::TinyCall;

constexpr int kLaunches = 3;

void PlanAndLaunch() {
  TinyCall call(3);
  ASSERT_EQ(call.Prepare(), 0);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(call.executor), 0);
  std::vector<char> workspace(call.workspace_size);
  for (int i = 0; i < kLaunches; ++i) {
    ASSERT_EQ(
        Launch(workspace.data(), workspace.size(), call.executor, nullptr), 0);
  }
  ASSERT_EQ(aclrtSynchronizeStream(nullptr), 0);
  ASSERT_EQ(aclDestroyAclOpExecutor(call.executor), 0);
}

void ExpectLaunches(const std::string& path, size_t launches = kLaunches) {
  SCOPED_TRACE(path);
  const ReadTrace trace(path);
  EXPECT_EQ(trace.Named("tinyGetWorkspaceSize").size(), launches / kLaunches);
  EXPECT_EQ(trace.With("X", "cat", "operator").size(), launches);
  EXPECT_EQ(trace.With("f", "cat", "submission").size(), launches);
  EXPECT_GE(trace.Named("aclrtSetDevice").size(), 1u);
}

// A child, which tests of written and of unwritable files start.
TEST(TraceFileChild, DISABLED_Exits) {
  PlanAndLaunch();
  std::exit(HasFailure() ? 1 : 0);
}

TEST(TraceFile, IsWrittenByAProcessThatExitsWithoutFinalizing) {
  const TemporaryFolder folder;
  const auto child = RunChild("TraceFileChild.DISABLED_Exits",
                              {{"FLASHACL_TRACE", folder / "t.json"}});
  ASSERT_TRUE(child.ok()) << child.output;
  EXPECT_EQ(folder.Files(), std::vector{folder / "t.json"});
  ExpectLaunches(folder / "t.json");
}

// A child, which TraceFile.IsWrittenByFinalizing starts.
TEST(TraceFileChild, DISABLED_FinalizesAndEndsAtOnce) {
  EXPECT_FALSE(Tracing());  // lines
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  PlanAndLaunch();
  ASSERT_TRUE(Succeeds(aclFinalize()));
  _exit(HasFailure() ? 1 : 0);
}

TEST(TraceFile, IsWrittenByFinalizing) {
  const TemporaryFolder folder;
  const auto child = RunChild("TraceFileChild.DISABLED_FinalizesAndEndsAtOnce",
                              {{"FLASHACL_TRACE", folder / "t.json"}});
  ASSERT_TRUE(child.ok()) << child.output;
  ExpectLaunches(folder / "t.json");
}

// A child, which TraceFile.OfAForkedChildIsAnother starts.
TEST(TraceFileChild, DISABLED_Forks) {
  PlanAndLaunch();
  const pid_t busy = testing::Fork();
  if (busy == 0) {
    PlanAndLaunch();
    PlanAndLaunch();
    WriteTraceFile();  // what exit does, without its search for leaks
    _exit(HasFailure() ? 1 : 0);
  }
  const pid_t idle = testing::Fork();
  if (idle == 0) {
    WriteTraceFile();
    _exit(0);
  }
  for (const pid_t child : {busy, idle}) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

TEST(TraceFile, OfAForkedChildIsAnother) {
  const TemporaryFolder folder;
  const auto child = RunChild("TraceFileChild.DISABLED_Forks",
                              {{"FLASHACL_TRACE", folder / "t.json"}});
  ASSERT_TRUE(child.ok()) << child.output;
  const std::vector<std::string> files = folder.Files();
  // One that did nothing has none.
  ASSERT_EQ(files.size(), 2u);
  ExpectLaunches(folder / "t.json");
  ExpectLaunches(files[0] == folder / "t.json" ? files[1] : files[0],
                 2 * kLaunches);
}

// A trace must not change what a program does.
TEST(TraceFile, ThatCannotBeWrittenIsNoError) {
  const TemporaryFolder folder;
  ASSERT_EQ(symlink("/dev/full", (folder / "full.json").c_str()), 0);
  for (const std::string& path :
       {folder / "full.json", std::string("/no/such/folder/t.json")}) {
    const auto child =
        RunChild("TraceFileChild.DISABLED_Exits", {{"FLASHACL_TRACE", path}});
    EXPECT_TRUE(child.ok()) << path << child.output;
  }
}

// A child, which TraceFile.IsLinesUnlessItEndsInJson starts.
TEST(TraceFileChild, DISABLED_WritesLines) {
  EXPECT_TRUE(Tracing());
  PlanAndLaunch();
  EXPECT_FALSE(IsTimelinePath(std::getenv("FLASHACL_TRACE")));
}

TEST(TraceFile, IsLinesUnlessItEndsInJson) {
  const TemporaryFolder folder;
  const auto child = RunChild("TraceFileChild.DISABLED_WritesLines",
                              {{"FLASHACL_TRACE", folder / "json"}});
  ASSERT_TRUE(child.ok()) << child.output;
  std::ifstream file(folder / "json");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_NE(line.find(" plan tiny "), std::string::npos) << line;
}

TEST(PathOfThisProcess, NumbersWhereItIsTold) {
  const std::string number = Str("{}", getpid());
  EXPECT_EQ(PathOfThisProcess("a/t.json"), "a/t.json");
  EXPECT_EQ(PathOfThisProcess("a%p/t.%p.json"),
            "a" + number + "/t." + number + ".json");
}

}  // namespace
}  // namespace flashacl::acl::profile
