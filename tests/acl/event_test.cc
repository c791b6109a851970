// SPDX-License-Identifier: Apache-2.0
// Events from inside: what a wait refers to, and that nobody waits for a mark
// that can no longer come.
#include "acl/event.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

constexpr uint32_t kAll = ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE;

class EventTest : public ::flashacl::testing::RuntimeTest {
 protected:
  // Blocks `stream` until `gate` opens.
  void Block(aclrtStream stream, Latch* gate) {
    auto at = Find<Stream>(stream);
    ASSERT_NE(at, nullptr);
    at->Push(
        [raw = at.get(), gate] {
          raw->WaitInTask(*gate, std::nullopt);
          return ACL_SUCCESS;
        },
        "test", TaskKind::kControl);
  }
  void Count(aclrtStream stream) {
    EXPECT_TRUE(Succeeds(Enqueue(
        stream, [this] { return ++count_, 0; }, "t")));
  }

  std::atomic<int> count_{0};
};

TEST_F(EventTest, AWaitHoldsTheOtherStreamBack) {
  ScopedStream first, second;
  Latch gate;
  const auto event = Event::Create(0, EventFamily::kPlain, kAll);
  Block(first, &gate);
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(first), "test")));
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(second), 0, "test")));
  Count(second);
  EXPECT_TRUE(event->has_pending_waits());
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(second, 5)));
  EXPECT_EQ(count_, 0);
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  EXPECT_EQ(count_, 1);
  EXPECT_FALSE(event->has_pending_waits());
  event->Destroy();
}

TEST_F(EventTest, IdleStreamsAreLeftAsleep) {
  ScopedStream first, second;
  for (const aclrtStream stream : {aclrtStream{first}, aclrtStream{second}}) {
    Count(stream);  // from now on it has a thread
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
  const auto event = Event::Create(0, EventFamily::kPlain, kAll);
  const std::shared_ptr<Stream> waits = Find<Stream>(second);
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(first), "test")));
  EXPECT_TRUE(event->mark()->done.open());
  const uint64_t before = waits->pushed();
  EXPECT_TRUE(Succeeds(event->WaitOn(*waits, 0, "test")));
  EXPECT_EQ(waits->pushed(), before);
  EXPECT_FALSE(event->has_pending_waits());
  // Not one whose thread has something to do.
  Latch gate;
  Block(first, &gate);
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(first), "test")));
  EXPECT_FALSE(event->mark()->done.open());
  EXPECT_TRUE(Succeeds(event->WaitOn(*waits, 0, "test")));
  EXPECT_GT(waits->pushed(), before);
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  EXPECT_TRUE(event->mark()->done.open());
  event->Destroy();
}

TEST_F(EventTest, RecordingAgainDisturbsNoQueuedWait) {
  ScopedStream first, second, third;
  Latch gate;
  const auto event = Event::Create(0, EventFamily::kEx, kAll);
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(first), "test")));
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(second), 0, "test")));
  Block(third, &gate);
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(third), "test")));
  Count(second);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  EXPECT_FALSE(event->mark()->done.open());
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(third)));
  EXPECT_TRUE(event->mark()->done.open());
  event->Destroy();
}

TEST_F(EventTest, OnlySyncEventsWaitForARecordToCome) {
  ScopedStream first, second;
  const auto plain = Event::Create(0, EventFamily::kPlain, kAll);
  EXPECT_TRUE(FailsWith(107000, plain->WaitOn(*Find<Stream>(second), 0, "test"),
                        "recorded"));
  const auto ex = Event::Create(0, EventFamily::kEx, kAll);
  EXPECT_TRUE(Succeeds(ex->WaitOn(*Find<Stream>(second), 0, "test")));
  const auto no_sync =
      Event::Create(0, EventFamily::kWithFlag, ACL_EVENT_TIME_LINE);
  EXPECT_TRUE(
      FailsWith(107000, no_sync->WaitOn(*Find<Stream>(second), 0, "test")));
  const auto sync = Event::Create(0, EventFamily::kWithFlag, ACL_EVENT_SYNC);
  EXPECT_TRUE(Succeeds(sync->WaitOn(*Find<Stream>(second), 0, "test")));
  Count(second);
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(second, 5)));
  EXPECT_TRUE(Succeeds(sync->Record(*Find<Stream>(first), "test")));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  EXPECT_EQ(count_, 1);
  for (const auto& event : {plain, ex, no_sync, sync}) event->Destroy();
}

TEST_F(EventTest, AfterAResetWaitsReferToTheNextRecord) {
  ScopedStream first, second;
  const auto event = Event::Create(0, EventFamily::kWithFlag, ACL_EVENT_SYNC);
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(first), "test")));
  EXPECT_TRUE(Succeeds(event->Reset(*Find<Stream>(first), "test")));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(first)));
  EXPECT_EQ(event->mark(), nullptr);
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(second), 0, "test")));
  Count(second);
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(second, 5)));
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(first), "test")));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  EXPECT_NE(event->mark(), nullptr);
  event->Destroy();
}

// A reset that comes late forgets the record that it was meant for.
TEST_F(EventTest, AResetForgetsNoNewerRecord) {
  ScopedStream first, second, third;
  Latch gate;
  const auto event = Event::Create(0, EventFamily::kWithFlag, ACL_EVENT_SYNC);
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(first), "test")));
  Block(first, &gate);
  EXPECT_TRUE(Succeeds(event->Reset(*Find<Stream>(first), "test")));
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(second), "test")));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(first)));
  ASSERT_NE(event->mark(), nullptr);
  EXPECT_TRUE(event->mark()->done.open());
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(third), 0, "test")));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(third)));
  event->Destroy();
}

TEST_F(EventTest, DestroyingEndsWaitsForARecordThatCannotCome) {
  ScopedStream stream;
  const auto event = Event::Create(0, EventFamily::kWithFlag, ACL_EVENT_SYNC);
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(stream), 0, "test")));
  Count(stream);
  event->Destroy();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(count_, 1);
}

TEST_F(EventTest, ADroppedRecordEndsWaits) {
  ScopedStream first, second;
  Latch gate;
  const auto event = Event::Create(0, EventFamily::kPlain, kAll);
  Block(first, &gate);
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(first), "test")));
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(second), 0, "test")));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(first)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  event->Destroy();
}

TEST_F(EventTest, AnAbortedWaitIsNoFailure) {
  ScopedStream stream;
  const auto event = Event::Create(0, EventFamily::kWithFlag, ACL_EVENT_SYNC);
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(stream), 0, "test")));
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(stream), 60, "test")));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_FALSE(event->has_pending_waits());
  event->Destroy();
}

TEST_F(EventTest, AWaitMayTimeOut) {
  ScopedStream stream;
  const auto event = Event::Create(0, EventFamily::kWithFlag, ACL_EVENT_SYNC);
  const Clock::time_point start = Clock::now();
  EXPECT_TRUE(Succeeds(event->WaitOn(*Find<Stream>(stream), 1, "test")));
  Count(stream);
  EXPECT_TRUE(FailsWith(107019, aclrtSynchronizeStream(stream), "1 s"));
  EXPECT_GE(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(count_, 1);
  event->Destroy();
}

TEST_F(EventTest, MarksCarryTheFailureOfTheirStream) {
  ScopedStream stream;
  const auto event = Event::Create(0, EventFamily::kPlain, kAll);
  Enqueue(
      stream, [] { return Fail(507015, Title::kRuntime, "bad"); }, "test");
  EXPECT_TRUE(Succeeds(event->Record(*Find<Stream>(stream), "test")));
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeEvent(event->handle()), "bad"));
  // Reported once, by whoever synchronises first.
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event->handle())));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  event->Destroy();
}

TEST_F(EventTest, ManyStreamsInARing) {
  constexpr int kStreams = 8;
  ScopedStream streams[kStreams];
  int value = 0;  // each stream in turn adds one, ordered by events only
  const auto event = Event::Create(0, EventFamily::kEx, kAll);
  for (int i = 0; i < 400; ++i) {
    const auto at = Find<Stream>(streams[i % kStreams]);
    EXPECT_TRUE(Succeeds(event->WaitOn(*at, 0, "test")));
    EXPECT_TRUE(Succeeds(at->Push(
        [&value, i] {
          EXPECT_EQ(value, i);
          return ++value, 0;
        },
        "test", TaskKind::kDevice)));
    EXPECT_TRUE(Succeeds(event->Record(*at, "test")));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event->handle())));
  EXPECT_EQ(value, 400);
  event->Destroy();
}

}  // namespace
}  // namespace flashacl::acl
