// SPDX-License-Identifier: Apache-2.0
// What a capture keeps, and in which order a replay runs it.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "acl/acl.h"
#include "tests/acl/graph/fixture.h"

namespace flashacl::testing {
namespace {

using CaptureTest = GraphTest;

constexpr auto kActive = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
constexpr auto kInvalidated = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
constexpr auto kNone = ACL_MODEL_RI_CAPTURE_STATUS_NONE;

TEST_F(CaptureTest, NothingRunsUntilAReplayAndThenEachTime) {
  ScopedStream stream;
  Say(stream, "0");
  Begin(stream);
  Say(stream, "a");
  Say(stream, "b");
  EXPECT_EQ(StatusOf(stream), kActive);
  const aclmdlRI graph = End(stream);
  EXPECT_EQ(StatusOf(stream), kNone);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(Log(), "0");
  Replay(graph, stream);
  Replay(graph, nullptr);
  EXPECT_EQ(Log(), "abab");
  Destroy(graph);
  Say(stream, "c");
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(Log(), "c");
}

TEST_F(CaptureTest, AReplayReadsWhatMemoryHoldsThen) {
  ScopedStream stream;
  void* device = nullptr;
  void* copy = nullptr;
  void* host = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  ASSERT_TRUE(Succeeds(aclrtMalloc(&copy, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&host, 64)));
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtMemcpyAsync(device, 64, host, 4,
                                        ACL_MEMCPY_HOST_TO_DEVICE, stream)));
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(copy, 64, 0x55, 8, stream)));
  EXPECT_TRUE(Succeeds(aclrtMemcpyAsync(copy, 64, device, 4,
                                        ACL_MEMCPY_DEVICE_TO_DEVICE, stream)));
  const aclmdlRI graph = End(stream);
  for (int i = 0; i < 1000; ++i) {
    *static_cast<int*>(host) = i;
    static_cast<int*>(copy)[1] = 0;
    Replay(graph, stream);
    ASSERT_EQ(static_cast<int*>(copy)[0], i);
    ASSERT_EQ(static_cast<int*>(copy)[1], 0x55555555);
  }
  Destroy(graph);
  EXPECT_TRUE(Succeeds(aclrtFree(device)));
  EXPECT_TRUE(Succeeds(aclrtFree(copy)));
  EXPECT_TRUE(Succeeds(aclrtFreeHost(host)));
}

TEST_F(CaptureTest, StreamsJoinByEventsAndAreTheirOwnAfterwards) {
  ScopedStream first, second;
  ScopedEvent fork, join;
  Begin(first);
  Say(first, "a");
  Follow(second, first, fork);
  EXPECT_EQ(StatusOf(second), kActive);
  aclmdlRI of_first = nullptr;
  aclmdlRI of_second = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(first, nullptr, &of_first)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(second, nullptr, &of_second)));
  EXPECT_EQ(of_first, of_second);
  Say(second, "b");
  Follow(first, second, join);
  Say(first, "c");
  const aclmdlRI graph = End(first);
  EXPECT_EQ(graph, of_first);
  EXPECT_EQ(StatusOf(second), kNone);
  Say(second, "s");
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  EXPECT_EQ(Log(), "s");
  Replay(graph, second);
  EXPECT_EQ(Log(), "abc");
  // Recorded in the capture only: outside, never.
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(fork)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(second, fork)));
  Destroy(graph);
}

struct Branch {
  const char* name;
  bool joins;        // waits for the first stream
  int nodes_before;  // the record that the first stream waits for; -1: none
  int nodes_after;
  int expected;  // of the end
};

void PrintTo(const Branch& branch, std::ostream* out) { *out << branch.name; }

class CaptureBranchTest : public CaptureTest,
                          public ::testing::WithParamInterface<Branch> {};

TEST_P(CaptureBranchTest, MustBeWaitedForBeforeTheEnd) {
  const Branch& branch = GetParam();
  ScopedStream first, second;
  ScopedEvent fork, join;
  Begin(first);
  Say(first, "a");
  if (branch.joins) Follow(second, first, fork);
  for (int i = 0; i < branch.nodes_before; ++i) Say(second, "b");
  if (branch.nodes_before >= 0) Follow(first, second, join);
  for (int i = 0; i < branch.nodes_after; ++i) Say(second, "c");
  aclmdlRI graph = nullptr;
  const aclError end = aclmdlRICaptureEnd(first, &graph);
  if (branch.expected == 0) {
    EXPECT_TRUE(Succeeds(end));
    Destroy(graph);
  } else {
    EXPECT_TRUE(FailsWith(branch.expected, end, "joined it"));
    EXPECT_EQ(graph, nullptr);
  }
  EXPECT_EQ(StatusOf(first), kNone);
  EXPECT_EQ(StatusOf(second), kNone);
  Begin(first);  // and it can be captured again
  Destroy(End(first));
}

INSTANTIATE_TEST_SUITE_P(
    All, CaptureBranchTest,
    ::testing::Values(Branch{"joined", true, 2, 0, 0},
                      Branch{"empty_and_joined", true, 0, 0, 0},
                      Branch{"empty", true, -1, 0, 107025},
                      Branch{"a_node_after_the_record", true, 1, 1, 107025},
                      Branch{"no_record", true, -1, 1, 107025}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(CaptureTest, AnEventRecordedAgainLeavesEarlierWaitsAlone) {
  ScopedStream first, second, third;
  ScopedEvent event, join, join_third;
  Begin(first);
  Say(first, "a");
  Follow(second, first, event);
  Say(first, "b");
  Follow(third, first, event);
  Say(third, "c");
  Say(second, "d");
  Follow(first, second, join);
  Follow(first, third, join_third);
  const aclmdlRI graph = End(first);
  Replay(graph, first);
  EXPECT_EQ(Log(), "abcd");
  Destroy(graph);
}

TEST_F(CaptureTest, TwoGraphsThatMeetAreBothInvalid) {
  ScopedStream first, second;
  ScopedEvent event;
  Begin(first);
  Begin(second);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, first)));
  EXPECT_TRUE(FailsWith(107032, aclrtStreamWaitEvent(second, event),
                        "captured in another graph"));
  for (const aclrtStream one : {aclrtStream(first), aclrtStream(second)}) {
    EXPECT_EQ(StatusOf(one), kInvalidated);
    Say(one, "x");  // swallowed
    aclmdlRI graph = &graph;
    EXPECT_TRUE(FailsWith(507903, aclmdlRICaptureEnd(one, &graph)));
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(StatusOf(one), kNone);
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(one)));
  }
  EXPECT_EQ(Log(), "");
}

TEST_F(CaptureTest, TheDefaultStreamCannotJoin) {
  ScopedStream stream;
  ScopedEvent event;
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  EXPECT_TRUE(FailsWith(107031, aclrtStreamWaitEvent(nullptr, event)));
  EXPECT_TRUE(FailsWith(507903, aclmdlRICaptureEnd(stream, &failed_)));
}

TEST_F(CaptureTest, PlainEventsInvalidate) {
  ScopedStream stream;
  aclrtEvent plain = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateEvent(&plain)));
  const auto record = [&] { return aclrtRecordEvent(plain, stream); };
  const auto wait = [&] { return aclrtStreamWaitEvent(stream, plain); };
  const auto reset = [&] { return aclrtResetEvent(plain, stream); };
  for (int i = 0; i < 3; ++i) {
    Begin(stream);
    const aclError error = i == 0 ? record() : i == 1 ? wait() : reset();
    EXPECT_TRUE(FailsWith(207000, error, "aclrtCreateEventExWithFlag")) << i;
    EXPECT_EQ(StatusOf(stream), kInvalidated);
    EXPECT_TRUE(FailsWith(507903, aclmdlRICaptureEnd(stream, &failed_)));
  }
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(plain)));
}

TEST_F(CaptureTest, AnEventFromOutsideIsNoBranch) {
  ScopedStream stream, other;
  ScopedEvent never, before;
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(before, other)));
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, never)));
  EXPECT_TRUE(Succeeds(aclrtResetEvent(before, stream)));
  EXPECT_EQ(StatusOf(stream), kActive);
  EXPECT_TRUE(FailsWith(107024, aclrtStreamWaitEvent(stream, before),
                        "outside of the capture"));
  EXPECT_TRUE(FailsWith(507903, aclmdlRICaptureEnd(stream, &failed_)));
}

TEST_F(CaptureTest, ACapturedEventMayBeDestroyedBeforeTheEnd) {
  ScopedStream first, second;
  Begin(first);
  {
    ScopedEvent fork, join;
    Follow(second, first, fork);
    Say(second, "b");
    Follow(first, second, join);
  }
  const aclmdlRI graph = End(first);
  Replay(graph, first);
  EXPECT_EQ(Log(), "b");
  Destroy(graph);
}

TEST_F(CaptureTest, AnotherThreadEndsOnlyARelaxedOne) {
  ScopedStream stream;
  const auto end = [&](aclmdlRICaptureMode mode) {
    Begin(stream, mode);
    aclError error = 0;
    std::thread([&] {
      aclrtSetDevice(0);
      error = aclmdlRICaptureEnd(stream, &failed_);
      EXPECT_EQ(Message().empty(), error == 0);
      aclrtResetDevice(0);
    }).join();
    EXPECT_EQ(StatusOf(stream), kNone);
    return error;
  };
  EXPECT_EQ(end(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 107038);
  EXPECT_EQ(end(ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL), 107038);
  EXPECT_EQ(end(ACL_MODEL_RI_CAPTURE_MODE_RELAXED), 0);
  Destroy(failed_);
}

TEST_F(CaptureTest, OneThatJoinedDoesNotEndIt) {
  ScopedStream first, second;
  ScopedEvent fork, join;
  Begin(first);
  Follow(second, first, fork);
  aclmdlRI same = &same;
  EXPECT_TRUE(FailsWith(107036, aclmdlRICaptureEnd(second, &same)));
  EXPECT_EQ(same, &same);
  EXPECT_EQ(StatusOf(second), kActive);
  Follow(first, second, join);
  Destroy(End(first));
}

// The thread that serves the stream which began serves all of the capture.
TEST_F(CaptureTest, CallbacksAreServedAtEachReplay) {
  ScopedStream first, second, other;
  ScopedEvent fork, join;
  std::atomic<int> called{0};
  std::atomic<bool> stop{false};
  std::thread server([&] {
    while (!stop) (void)aclrtProcessReport(10);
    Message();
  });
  const auto id = static_cast<uint64_t>(server.native_handle());
  ASSERT_TRUE(Succeeds(aclrtSubscribeReport(id, first)));
  const auto count = [](void* n) { ++*static_cast<std::atomic<int>*>(n); };
  Begin(first);
  Follow(second, first, fork);
  EXPECT_TRUE(Succeeds(
      aclrtLaunchCallback(count, &called, ACL_CALLBACK_BLOCK, second)));
  Follow(first, second, join);
  const aclmdlRI graph = End(first);
  for (int i = 1; i <= 3; ++i) {
    Replay(graph, other);
    EXPECT_EQ(called, i);
  }
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(id, first)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, other)));
  EXPECT_TRUE(FailsWith(107015, aclrtSynchronizeStream(other)));
  stop = true;
  server.join();
  Destroy(graph);
}

TEST_F(CaptureTest, EndsWithItsContext) {
  aclrtContext context = nullptr;
  aclrtContext before = nullptr;
  ASSERT_TRUE(Succeeds(aclrtGetCurrentContext(&before)));
  ASSERT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  aclrtStream stream = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  aclmdlRI whole = nullptr;
  Begin(stream);
  whole = End(stream);
  Begin(stream);
  Say(stream, "a");
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  ASSERT_TRUE(Succeeds(aclrtSetCurrentContext(before)));
  uint32_t id = 0;
  EXPECT_TRUE(FailsWith(107000, aclmdlRIGetId(whole, &id), "destroyed"));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));  // nothing is captured
  EXPECT_EQ(Log(), "");
}

}  // namespace
}  // namespace flashacl::testing
