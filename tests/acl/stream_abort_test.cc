// SPDX-License-Identifier: Apache-2.0
// Ending what runs: one task of a stream, or all of a device.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "acl/acl.h"
#include "acl/stream.h"
#include "tests/acl/busy_task.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::BusyTask;
using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class StreamAbort : public ::flashacl::testing::RuntimeTest {
 protected:
  // A task that waits for ever, and counts when it ends.
  aclError Block(aclrtStream stream) {
    return Find<Stream>(stream)->Push(
        [this] {
          running_.Open();
          ThisStream().WaitInTask(gate_, std::nullopt);
          return ++ended_, 0;
        },
        "test", TaskKind::kWait);
  }
  aclError Count(aclrtStream stream) {
    return Find<Stream>(stream)->Push([this] { return ++ran_, 0; }, "test",
                                      TaskKind::kDevice);
  }

  Latch running_;
  Latch gate_;
  std::atomic<int> ended_{0};
  std::atomic<int> ran_{0};
};

TEST_F(StreamAbort, StoppingEndsOneTaskAndKeepsTheOthers) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(Block(stream)));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Succeeds(Count(stream)));
  running_.Wait(std::nullopt);
  EXPECT_TRUE(Succeeds(aclrtStreamStop(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(ran_, 3);
  // The next one waits again.
  EXPECT_TRUE(Succeeds(Block(stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  gate_.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

TEST_F(StreamAbort, StoppingAnIdleStreamDoesNothing) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtStreamStop(stream)));
  EXPECT_TRUE(Succeeds(Count(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtStreamStop(stream)));
  EXPECT_TRUE(Succeeds(Block(stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  gate_.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(ran_, 1);
}

TEST_F(StreamAbort, StoppingAndAbortingAtOnce) {
  ScopedStream stream;
  for (int round = 0; round < 200; ++round) {
    EXPECT_TRUE(Succeeds(Block(stream)));
    EXPECT_TRUE(Succeeds(Count(stream)));
    std::thread stopper(
        [&] { EXPECT_TRUE(Succeeds(aclrtStreamStop(stream))); });
    EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
    stopper.join();
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
  EXPECT_TRUE(Succeeds(Count(stream)));
  const int before = ran_;
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_GE(ran_, before);
}

TEST_F(StreamAbort, StoppingIsNotForDefaultStreams) {
  aclrtStream by_name = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCtxGetCurrentDefaultStream(&by_name)));
  EXPECT_TRUE(FailsWith(100000, aclrtStreamStop(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtStreamStop(by_name)));
  int local = 0;
  EXPECT_TRUE(FailsWith(107000, aclrtStreamStop(&local)));
}

TEST_F(StreamAbort, AbortsEveryStreamOfADevice) {
  ScopedStream a, b;
  EXPECT_TRUE(Succeeds(Block(a)));
  EXPECT_TRUE(Succeeds(Block(b)));
  EXPECT_TRUE(Succeeds(Count(b)));
  EXPECT_TRUE(AbortStreams(1, std::nullopt));  // another's
  EXPECT_FALSE(Find<Stream>(a)->Idle());
  EXPECT_TRUE(AbortStreams(0, std::nullopt));
  EXPECT_TRUE(Find<Stream>(a)->Idle());
  EXPECT_TRUE(Find<Stream>(b)->Idle());
  EXPECT_EQ(ran_, 0);
}

TEST_F(StreamAbort, AbortingIsNotPatientForEver) {
  ScopedStream stream, idle;
  BusyTask busy(stream);
  EXPECT_FALSE(AbortStreams(0, DeadlineIn(5)));
  busy.End();
  EXPECT_TRUE(AbortStreams(0, std::nullopt));
}

// The failure of the task that an abort ends is forgotten like those before.
TEST_F(StreamAbort, WhatAbortedTasksAnswerIsForgotten) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(Find<Stream>(stream)->Push(
      [this] {
        running_.Open();
        ThisStream().WaitInTask(gate_, std::nullopt);
        return Fail(507015, Title::kRuntime, "as asked");
      },
      "test", TaskKind::kDevice)));
  running_.Wait(std::nullopt);
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

}  // namespace
}  // namespace flashacl::acl
