// SPDX-License-Identifier: Apache-2.0
// Work that a submitter does itself, in place of an idle stream: nobody but a
// clock can tell.
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/stream.h"
#include "tests/acl/busy_task.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::BusyTask;
using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

constexpr auto kNothing = [](Queue&) { return Status(); };
constexpr auto kFails = [](Queue&) { return RuntimeFailure("as asked"); };

class RunHereTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(Succeeds(aclrtCreateStream(&stream_)));
    at_ = Find<Stream>(stream_);
    Warm();
  }
  void TearDown() override {
    ReleaseStreams();
    at_ = nullptr;
    RuntimeTest::TearDown();
  }

  // Its thread has started, and nothing is left to do.
  void Warm() {
    Push([] { return 0; });
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream_)));
  }
  void Push(Task task) {
    EXPECT_TRUE(
        Succeeds(at_->Push(std::move(task), "test", TaskKind::kDevice)));
  }

  aclrtStream stream_ = nullptr;
  std::shared_ptr<Stream> at_;
};

TEST_F(RunHereTest, DoesItOnTheCallingThread) {
  const uint64_t before = at_->pushed();
  std::thread::id there{};
  EXPECT_TRUE(at_->RunHere([&](Queue& queue) {
    EXPECT_EQ(&queue, &at_->queue());
    EXPECT_FALSE(at_->Idle());
    there = std::this_thread::get_id();
    return Status();
  }));
  EXPECT_EQ(there, std::this_thread::get_id());
  EXPECT_TRUE(at_->Idle());
  EXPECT_EQ(at_->finished(), before + 1);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream_)));
}

TEST_F(RunHereTest, NotBeforeItsThreadIsThere) {
  const ScopedStream fresh;
  EXPECT_FALSE(Find<Stream>(fresh)->RunHere(kNothing));
}

TEST_F(RunHereTest, NotWhileATaskRunsOrWaits) {
  BusyTask busy(stream_);
  EXPECT_FALSE(at_->RunHere(kNothing));
  Push([] { return 0; });
  EXPECT_FALSE(at_->RunHere(kNothing));
  busy.End();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream_)));
  EXPECT_TRUE(at_->RunHere(kNothing));
}

TEST_F(RunHereTest, WhatIsSubmittedMeanwhileComesAfter) {
  std::atomic<bool> over{false};
  std::atomic<int> ran{0};
  aclrtEvent event = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateEvent(&event)));
  EXPECT_TRUE(at_->RunHere([&](Queue&) {
    for (int i = 0; i < 10; ++i) {
      Push([&] {
        EXPECT_TRUE(over);
        return ++ran, 0;
      });
    }
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream_)));
    EXPECT_FALSE(at_->RunHere(kNothing));
    // Long enough for a thread that does not wait to be found out.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    EXPECT_TRUE(Succeeds(aclrtQueryEventStatus(event, &status)));
    EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    over = true;
    return Status();
  }));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
  EXPECT_EQ(ran, 10);
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// The counter is no atomic: ThreadSanitizer sees who is not ordered.
TEST_F(RunHereTest, ThreadsTakeTurns) {
  constexpr int kThreads = 4, kTimes = 500;
  int count = 0;
  std::vector<int> last(kThreads, -1);
  std::atomic<int> here{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTimes; ++i) {
        const auto work = [&, t, i] {
          EXPECT_EQ(last[static_cast<size_t>(t)], i - 1);
          last[static_cast<size_t>(t)] = i;
          ++count;
        };
        if (at_->RunHere([&](Queue&) { return work(), Status(); })) {
          ++here;
        } else {
          Push([work] { return work(), 0; });
        }
        if (i % 16 == 0) {
          EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream_)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream_)));
  EXPECT_EQ(count, kThreads * kTimes);
  EXPECT_GT(here, 0);
}

TEST_F(RunHereTest, WaitersAreTold) {
  std::thread waiter;
  EXPECT_TRUE(at_->RunHere([&](Queue&) {
    waiter = std::thread(
        [&] { EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream_))); });
    // So that it sleeps.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return Status();
  }));
  waiter.join();
}

TEST_F(RunHereTest, FailuresCountForNothing) {
  EXPECT_FALSE(at_->RunHere(kFails));
  EXPECT_FALSE(at_->RunHere(
      [](Queue&) -> Status { throw std::runtime_error("as asked"); }));
  EXPECT_EQ(Message(), "");
  EXPECT_TRUE(at_->Idle());
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream_)));
  EXPECT_TRUE(at_->RunHere(kNothing));
}

TEST_F(RunHereTest, NotWhileAFailureWaits) {
  EXPECT_TRUE(
      Succeeds(aclrtSetStreamFailureMode(stream_, ACL_STOP_ON_FAILURE)));
  Push([] { return Fail(507015, Title::kRuntime, "bad"); });
  while (!at_->Idle()) std::this_thread::yield();
  EXPECT_FALSE(at_->RunHere(kNothing));
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream_), "bad"));
  EXPECT_FALSE(at_->RunHere(kNothing));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream_)));
  Warm();
  EXPECT_TRUE(at_->RunHere(kNothing));
}

TEST_F(RunHereTest, AbortsAndStopsComeBetween) {
  for (int n = 0; n < 50; ++n) {
    int ran = 0;
    EXPECT_TRUE(at_->RunHere([&](Queue&) {
      Push([&] { return ++ran, 0; });
      if (n % 2 == 0) {
        at_->Abort();
      } else {
        at_->Stop();
      }
      EXPECT_TRUE(at_->aborting());
      return Status();
    }));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream_)));
    EXPECT_EQ(ran, n % 2);
    Warm();
    EXPECT_FALSE(at_->aborting());
  }
}

// What ends an abort may still run when a submitter goes on, and ends under the
// number of an older task.
TEST_F(RunHereTest, NothingIsLostAfterAborts) {
  for (int n = 0; n < 1000; ++n) {
    std::atomic<bool> running{false};
    Push([&] {
      running = true;
      while (!at_->aborting()) std::this_thread::yield();
      return 0;
    });
    while (!running) std::this_thread::yield();
    at_->Abort();
    while (at_->aborting()) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) (void)at_->RunHere(kNothing);
    ASSERT_TRUE(Succeeds(aclrtSynchronizeStreamWithTimeout(stream_, 10000)));
  }
}

TEST_F(RunHereTest, AbortsReachWhoWaitsForIt) {
  std::thread waiter;
  EXPECT_TRUE(at_->RunHere([&](Queue&) {
    waiter = std::thread([&] {
      EXPECT_TRUE(FailsWith(107023, aclrtSynchronizeStream(stream_)));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream_)));
    waiter.join();
    return Status();
  }));
}

TEST_F(RunHereTest, DestroyingWaitsForIt) {
  std::atomic<bool> over{false};
  std::thread other;
  EXPECT_TRUE(at_->RunHere([&](Queue&) {
    other = std::thread([&] {
      EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream_)));
      EXPECT_TRUE(over);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    over = true;
    return Status();
  }));
  other.join();
  EXPECT_FALSE(at_->RunHere(kNothing));
}

TEST_F(RunHereTest, DestroyingByForceDoesNot) {
  const std::weak_ptr<Stream> watched = at_;
  EXPECT_TRUE(at_->RunHere([&](Queue&) {
    EXPECT_TRUE(Succeeds(aclrtDestroyStreamForce(stream_)));
    return Status();
  }));
  at_ = nullptr;
  while (!watched.expired()) std::this_thread::yield();
}

TEST_F(RunHereTest, NotWhileStreamsAreHeld) {
  HoldStreams(std::chrono::milliseconds(0));
  EXPECT_FALSE(at_->RunHere(kNothing));
  ReleaseStreams();
  EXPECT_TRUE(at_->RunHere(kNothing));
}

TEST_F(RunHereTest, HoldingWaitsForIt) {
  std::atomic<bool> over{false};
  std::thread other;
  EXPECT_TRUE(at_->RunHere([&](Queue&) {
    other = std::thread([&] {
      HoldStreams(std::chrono::seconds(10));
      EXPECT_TRUE(over);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    over = true;
    return Status();
  }));
  other.join();
}

TEST_F(RunHereTest, NotWhileACaptureRecords) {
  aclmdlRI graph = nullptr;
  ASSERT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_FALSE(at_->RunHere(kNothing));
  ASSERT_TRUE(Succeeds(aclmdlRICaptureEnd(stream_, &graph)));
  EXPECT_TRUE(at_->RunHere(kNothing));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
}

TEST_F(RunHereTest, NotOnADeviceWhoseWorkIsAborted) {
  EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0)));
  EXPECT_FALSE(at_->RunHere(kNothing));
}

// The program's rounding is not ours, nor are our flags the program's.
TEST_F(RunHereTest, ComputesAsAnyThreadDoes) {
  std::fesetround(FE_DOWNWARD);
  std::feclearexcept(FE_ALL_EXCEPT);
  float third = 0;
  const bool done = at_->RunHere([&](Queue&) {
    volatile float three = 3;
    third = 1 / three;
    return Status();
  });
  const bool clean = std::fetestexcept(FE_INEXACT) == 0;
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_TRUE(done);
  EXPECT_TRUE(clean);
  EXPECT_EQ(third, 1.0f / 3);  // by the compiler, to nearest
}

}  // namespace
}  // namespace flashacl::acl
