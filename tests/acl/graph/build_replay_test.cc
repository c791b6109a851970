// SPDX-License-Identifier: Apache-2.0
// How replays of built graphs that have no end are ended.
#include "acl/graph/build_replay.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "acl/graph/side_by_side.h"
#include "tests/acl/graph/build_fixture.h"
#include "tests/testing/child.h"

namespace flashacl::testing {
namespace {

class BuildReplayTest : public BuildTest,
                        public ::testing::WithParamInterface<bool> {};

TEST_P(BuildReplayTest, TheStreamIsAborted) {
  ScopedStream stream;
  const aclmdlRI graph = Endless(GetParam());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    WaitForRounds();
    EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
  Destroy(graph);
}

TEST_P(BuildReplayTest, TheGraphIsAborted) {
  ScopedStream stream;
  const aclmdlRI graph = Endless(GetParam());
  EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));  // nothing runs
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    WaitForRounds();
    EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));
    EXPECT_TRUE(FailsWith(507023, aclrtSynchronizeStream(stream), "aborted"));
  }
  Destroy(graph);
}

TEST_P(BuildReplayTest, TheDeviceIsAborted) {
  ScopedStream stream;
  const aclmdlRI graph = Endless(GetParam());
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  WaitForRounds();
  EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  Destroy(graph);
}

TEST_P(BuildReplayTest, TheStreamIsStopped) {
  ScopedStream stream;
  const aclmdlRI graph = Endless(GetParam());
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  Say(stream, "b");
  WaitForRounds();
  EXPECT_TRUE(Succeeds(aclrtStreamStop(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(Log(), "b");
  Destroy(graph);
}

TEST_P(BuildReplayTest, TheStreamIsDestroyedByForce) {
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  const aclmdlRI graph = Endless(GetParam());
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  WaitForRounds();
  EXPECT_TRUE(Succeeds(aclrtDestroyStreamForce(stream)));
  Destroy(graph);  // waits for the step that runs
}

TEST_P(BuildReplayTest, ExecuteComesToItsTime) {
  const aclmdlRI graph = Endless(GetParam());
  EXPECT_TRUE(FailsWith(507046, aclmdlRIExecute(graph, 20)));
  WaitForRounds();
  EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));
  Destroy(graph);
}

TEST_P(BuildReplayTest, DestroyGivesUpAndTheGraphLivesOn) {
  ScopedStream stream;
  const aclmdlRI graph = Endless(GetParam());
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(FailsWith(107037, aclmdlRIDestroy(graph)));  // after 10 s
  WaitForRounds();
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  Destroy(graph);
}

// A stream that another one waits for in vain is ended, too.
TEST_F(BuildTest, WaitsAreEnded) {
  ScopedStream stream;
  ScopedEvent never, external{ScopedEvent::External()};
  const aclmdlRI graph = NewGraph();
  const aclrtStream first = Bound(graph);
  const aclrtStream second = Bound(graph);
  Say(first, "<");
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(first, never)));
  Say(first, "a");
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(never, first)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(second, external)));
  Say(second, "b");
  Finish(graph, first);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    // Before it runs there is nothing to abort.
    while (Log().empty()) std::this_thread::yield();
    EXPECT_TRUE(
        FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
    EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));
    EXPECT_TRUE(FailsWith(507023, aclrtSynchronizeStream(stream)));
    EXPECT_EQ(Log(), "");
  }
  Destroy(graph);
}

INSTANTIATE_TEST_SUITE_P(Of, BuildReplayTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "SeveralStreams" : "OneStream";
                         });

// The process ends at once, whatever replays it has under way.
TEST(BuildReplayExit, IsNotHeldUp) {
  for (const char* beside : {"0", "1"}) {
    const auto start = std::chrono::steady_clock::now();
    const auto child = RunChild("BuildReplayExitChild.DISABLED_Exits",
                                {{"FLASHACL_TEST_BESIDE", beside}});
    EXPECT_FALSE(child.timed_out);
    EXPECT_EQ(child.exit_code, 42) << child.signal << child.output;
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(10));
  }
}

class BuildReplayExitChild : public BuildTest {};

// A child, which BuildReplayExit.IsNotHeldUp starts.
TEST_F(BuildReplayExitChild, DISABLED_Exits) {
  const char* const beside = std::getenv("FLASHACL_TEST_BESIDE");
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  const aclmdlRI graph = Endless(beside != nullptr && *beside == '1');
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  WaitForRounds();
  std::exit(HasFailure() ? 1 : 42);
}

}  // namespace
}  // namespace flashacl::testing
