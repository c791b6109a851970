// SPDX-License-Identifier: Apache-2.0
// Graphs in which one captured stream waits for another without the graph
// knowing: they must not run one after the other.
#include "acl/graph/branches.h"

#include <gtest/gtest.h>

#include <thread>

#include "acl/acl.h"
#include "acl/device_fault.h"
#include "acl/stream.h"
#include "tests/acl/graph/fixture.h"

namespace flashacl::testing {
namespace {

class BranchesTest : public GraphTest {
 protected:
  // The first stream waits for an event that the second records later.
  aclmdlRI Capture(aclrtEvent external, std::atomic<aclError>* code) {
    Begin(first_);
    Say(first_, "a");
    Follow(second_, first_, fork_);
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(first_, external)));
    EXPECT_TRUE(Succeeds(aclrtResetEvent(external, first_)));
    Say(first_, "c");
    Say(second_, "b");
    EXPECT_TRUE(Succeeds(acl::Enqueue(
        second_, [code] { return code->load(); }, "test")));
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(external, second_)));
    Follow(first_, second_, join_);
    Say(first_, "d");
    return End(first_);
  }

  void TearDown() override {
    for (const aclrtStream stream : {first_, second_}) {
      EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
    }
    for (const aclrtEvent event : {fork_, join_}) {
      EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
    }
    GraphTest::TearDown();
  }
  void SetUp() override {
    GraphTest::SetUp();
    for (aclrtStream* stream : {&first_, &second_}) {
      ASSERT_TRUE(Succeeds(aclrtCreateStream(stream)));
    }
    for (aclrtEvent* event : {&fork_, &join_}) {
      ASSERT_TRUE(Succeeds(aclrtCreateEventExWithFlag(event, ACL_EVENT_SYNC)));
    }
  }

  aclrtStream first_ = nullptr;
  aclrtStream second_ = nullptr;
  aclrtEvent fork_ = nullptr;
  aclrtEvent join_ = nullptr;
  std::atomic<aclError> code_{0};
};

TEST_F(BranchesTest, RunSideBySideInTheOrderOfEvents) {
  ScopedEvent external{ScopedEvent::External()};
  const aclmdlRI graph = Capture(external, &code_);
  for (int i = 0; i < 200; ++i) {
    Replay(graph, first_);
    ASSERT_EQ(Log(), "abcd");
  }
  Destroy(graph);
}

TEST_F(BranchesTest, AFailureEndsTheOthersToo) {
  ScopedEvent external{ScopedEvent::External()};
  const aclmdlRI graph = Capture(external, &code_);
  code_ = 507015;
  acl::ClearFaults(0);
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, first_)));
  // The first branch waits for what the second will never record.
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(first_, 10000), 507015);
  EXPECT_EQ(Log(), "ab");
  EXPECT_TRUE(DeviceHasFailed());
  code_ = 0;
  Replay(graph, first_);
  EXPECT_EQ(Log(), "abcd");
  Destroy(graph);
}

TEST_F(BranchesTest, EndWhenTheStreamIsAborted) {
  ScopedEvent external{ScopedEvent::External()};
  ScopedEvent never{ScopedEvent::External()};
  Begin(first_);
  Say(first_, "a");
  Follow(second_, first_, fork_);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(second_, never)));
  Say(second_, "b");
  Follow(first_, second_, join_);
  const aclmdlRI graph = End(first_);
  for (const bool by_graph : {false, true}) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, first_)));
    // Before it runs the graph has nothing to abort.
    while (Log().empty()) std::this_thread::yield();
    EXPECT_TRUE(
        FailsWith(507046, aclrtSynchronizeStreamWithTimeout(first_, 5)));
    if (by_graph) {
      EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));
      EXPECT_TRUE(FailsWith(507023, aclrtSynchronizeStream(first_)));
    } else {
      EXPECT_TRUE(Succeeds(aclrtStreamAbort(first_)));
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(first_)));
    }
    EXPECT_EQ(Log(), "");
  }
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(never, second_)));
  Replay(graph, first_);
  EXPECT_EQ(Log(), "ab");
  Destroy(graph);
}

// Whatever a branch waits for: the program, or the other branch.
TEST_F(BranchesTest, EndWhenTheDeviceIsAborted) {
  ScopedEvent external{ScopedEvent::External()};
  ScopedEvent never{ScopedEvent::External()};
  Begin(first_);
  Follow(second_, first_, fork_);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(second_, never)));
  EXPECT_TRUE(Succeeds(aclrtResetEvent(never, second_)));
  Say(second_, "b");
  Follow(first_, second_, join_);
  Say(first_, "c");
  const aclmdlRI graph = End(first_);
  for (int i = 0; i < 20; ++i) {
    for (const aclrtStream stream : {first_, second_}) {  // one is queued
      EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    }
    if (i % 2 == 0) {
      EXPECT_TRUE(
          FailsWith(507046, aclrtSynchronizeStreamWithTimeout(first_, 5)));
    }
    EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 10000)));
    EXPECT_TRUE(FailsWith(107022, aclmdlRIExecuteAsync(graph, first_)));
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    EXPECT_EQ(Log(), "");
  }
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, first_)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(never, second_)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(first_)));
  EXPECT_EQ(Log(), "bc");
  Destroy(graph);
}

}  // namespace
}  // namespace flashacl::testing
