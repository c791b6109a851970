// SPDX-License-Identifier: Apache-2.0
// Streams from inside: order, failures, aborting, destroying, holding.
#include "acl/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/context.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class StreamTest : public ::flashacl::testing::RuntimeTest {
 protected:
  // A task that waits until Release, and then fails with `code`.
  Task Blocked(std::shared_ptr<Stream> stream, aclError code = 0) {
    return [this, at = stream.get(), code] {
      running_.Open();
      at->WaitInTask(gate_, std::nullopt);
      return code == 0 ? 0 : Fail(code, Title::kRuntime, "as asked");
    };
  }
  std::shared_ptr<Stream> Get(aclrtStream stream) {
    return Find<Stream>(stream);
  }

  Latch running_;
  Latch gate_;
};

TEST_F(StreamTest, RunsTasksInOrderOnOneOtherThread) {
  ScopedStream stream;
  std::vector<int> order;
  const std::thread::id here = std::this_thread::get_id();
  std::thread::id there{};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(Succeeds(Enqueue(
        stream,
        [&, i]() -> aclError {
          if (i == 0) there = std::this_thread::get_id();
          EXPECT_EQ(there, std::this_thread::get_id());
          order.push_back(i);
          return 0;
        },
        "test")));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_NE(there, here);
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_F(StreamTest, KeepsTheOrderOfEachSubmittingThread) {
  ScopedStream stream;
  std::vector<int> last(4, -1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const Task task = [&last, t, i]() -> aclError {
          EXPECT_EQ(last[static_cast<size_t>(t)], i - 1);
          last[static_cast<size_t>(t)] = i;
          return 0;
        };
        EXPECT_TRUE(Succeeds(Enqueue(stream, task, "test")));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(last, std::vector<int>(4, 499));
}

TEST_F(StreamTest, SubmittingDoesNotWait) {
  ScopedStream stream;
  const auto at = Get(stream);
  EXPECT_TRUE(Succeeds(Enqueue(stream, Blocked(at), "test")));
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Succeeds(Enqueue(
        stream, [] { return 0; }, "test")));
  }
  EXPECT_FALSE(at->Idle());
  gate_.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(at->Idle());
}

TEST_F(StreamTest, StreamsDoNotWaitForEachOther) {
  ScopedStream slow, fast;
  EXPECT_TRUE(Succeeds(Enqueue(slow, Blocked(Get(slow)), "test")));
  EXPECT_TRUE(Succeeds(Enqueue(
      nullptr, [] { return 0; }, "test")));
  EXPECT_TRUE(Succeeds(Enqueue(
      fast, [] { return 0; }, "test")));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(fast)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_FALSE(Get(slow)->Idle());
  gate_.Open();
}

TEST_F(StreamTest, TheFirstFailureSurfacesOnce) {
  ScopedStream stream;
  for (const char* text : {"first", "second"}) {
    EXPECT_TRUE(Succeeds(Enqueue(
        stream,
        [text] {
          Fail(107000, Title::kReason, "on the way");
          return Fail(507015, Title::kRuntime, text);
        },
        "test")));
  }
  int ran = 0;
  EXPECT_TRUE(Succeeds(Enqueue(
      stream, [&] { return ++ran, 0; }, "test")));
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream), "first"));
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  // Another time, another message.
  Enqueue(
      stream, [] { return Fail(507000, Title::kRuntime, "third"); }, "t");
  EXPECT_TRUE(FailsWith(507000, aclrtSynchronizeDevice(), "third"));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

TEST_F(StreamTest, FailuresWithoutAMessageGetOne) {
  ScopedStream stream;
  Enqueue(
      stream, [] { return 507015; }, "test");
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream), "507015"));
}

TEST_F(StreamTest, ExceptionsOfTasksAreFailures) {
  ScopedStream stream;
  Enqueue(
      stream, [] { return static_cast<int>(std::string("a").at(9)); }, "test");
  EXPECT_TRUE(FailsWith(500000, aclrtSynchronizeStream(stream)));
}

TEST_F(StreamTest, MayStopOnFailure) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE)));
  int ran = 0, always = 0;
  const Task count = [&] { return ++ran, 0; };
  Enqueue(stream, count, "test");
  Enqueue(
      stream, [] { return Fail(507015, Title::kRuntime, "bad"); }, "test");
  Enqueue(stream, count, "test");
  Enqueue(
      stream, [&] { return ++always, 0; }, "test", TaskKind::kControl);
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream), "bad"));
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(always, 1);
  // Stopped until aborted.
  Enqueue(stream, count, "test");
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream), "bad"));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  Enqueue(stream, count, "test");
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(ran, 2);
}

TEST_F(StreamTest, TasksAreDestroyedBeforeTheyCountAsDone) {
  ScopedStream stream;
  for (int i = 0; i < 200; ++i) {
    auto held = std::make_shared<int>(i);
    Enqueue(
        stream, [held] { return *held < 0; }, "test");
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    EXPECT_EQ(held.use_count(), 1);
  }
}

// The same of what takes its time, so that who is told too early notices.
TEST_F(StreamTest, TasksAreDestroyedBeforeWaitersAreTold) {
  struct Slow {
    std::atomic<bool>& gone;
    ~Slow() {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      gone = true;
    }
  };
  ScopedStream stream;
  const auto at = Get(stream);
  std::atomic<bool> gone{false};
  uint64_t number = 0;
  const auto push = [&] {
    gone = false;
    EXPECT_TRUE(
        Succeeds(at->Push([held = std::make_shared<Slow>(gone)] { return 0; },
                          "test", TaskKind::kDevice, &number)));
  };
  push();
  EXPECT_TRUE(Succeeds(at->Synchronize(std::nullopt, "test")));
  EXPECT_TRUE(gone);
  push();
  EXPECT_TRUE(Succeeds(at->WaitFor(number, std::nullopt, "test")));
  EXPECT_TRUE(gone);
  push();
  while (!at->Idle()) std::this_thread::yield();
  EXPECT_TRUE(gone);
}

TEST_F(StreamTest, AbortDropsTasksAndWakesWaiters) {
  ScopedStream stream;
  const auto at = Get(stream);
  Enqueue(stream, Blocked(at), "test");
  int ran = 0;
  auto held = std::make_shared<int>(0);
  for (int i = 0; i < 10; ++i) {
    Enqueue(
        stream, [&, held] { return ++ran, 0; }, "test");
  }
  std::thread waiter(
      [&] { EXPECT_TRUE(FailsWith(107023, aclrtSynchronizeStream(stream))); });
  running_.Wait(std::nullopt);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  waiter.join();
  EXPECT_EQ(held.use_count(), 1);
  // The running task gave up its wait, though the gate is still closed.
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(ran, 0);
  Enqueue(
      stream, [&] { return ++ran, 0; }, "test");
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(ran, 1);
}

TEST_F(StreamTest, AbortOfAnIdleStreamDoesNothing) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  int ran = 0;
  Enqueue(
      stream, [&] { return ++ran, 0; }, "test");
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(ran, 1);
}

TEST_F(StreamTest, DestroyWaitsForTasks) {
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  int ran = 0;
  for (int i = 0; i < 5; ++i) {
    Enqueue(
        stream,
        [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          return ++ran, 0;
        },
        "test");
  }
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  EXPECT_EQ(ran, 5);
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyStream(stream)));
  EXPECT_TRUE(FailsWith(107000, Enqueue(
                                    stream, [] { return 0; }, "test")));
}

TEST_F(StreamTest, DestroyByForceDoesNot) {
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  const std::weak_ptr<Stream> watched = Get(stream);
  std::atomic<int> ran{0};
  Enqueue(stream, Blocked(watched.lock()), "test");
  Enqueue(
      stream, [&] { return ++ran, 0; }, "test");
  running_.Wait(std::nullopt);
  EXPECT_TRUE(Succeeds(aclrtDestroyStreamForce(stream)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeStream(stream)));
  // The thread lets go of the stream once its task has given up.
  while (!watched.expired()) std::this_thread::yield();
  EXPECT_EQ(ran, 0);
}

TEST_F(StreamTest, ATaskMayDestroyItsStream) {
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  std::shared_ptr<Stream> at = Get(stream);
  const std::weak_ptr<Stream> watched = at;
  std::atomic<int> ran{0};
  Enqueue(
      stream,
      [&] {
        EXPECT_TRUE(FailsWith(507004, aclrtSynchronizeStream(stream)));
        EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
        return 0;
      },
      "test");
  // Runs if it came before the end, and is refused otherwise.
  const aclError pushed =
      at->Push([&] { return ++ran, 0; }, "test", TaskKind::kDevice);
  at.reset();
  while (!watched.expired()) std::this_thread::yield();
  EXPECT_EQ(ran, pushed == ACL_SUCCESS ? 1 : 0);
}

TEST_F(StreamTest, TasksHaveTheStreamsContext) {
  aclrtContext here = nullptr, there = nullptr;
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&here)));
  EXPECT_TRUE(Succeeds(EnqueueAndWait(
      nullptr, [&] { return aclrtGetCurrentContext(&there); }, "test")));
  EXPECT_EQ(here, there);
}

TEST_F(StreamTest, TimesOut) {
  ScopedStream stream;
  Enqueue(stream, Blocked(Get(stream)), "test");
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeDeviceWithTimeout(5)));
  gate_.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStreamWithTimeout(stream, -1)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStreamWithTimeout(stream, 1)));
}

TEST_F(StreamTest, HeldStreamsRunForWhoWaits) {
  ScopedStream stream;
  Enqueue(
      stream, [] { return 0; }, "test");
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  HoldStreams(std::chrono::milliseconds(1000));
  std::atomic<int> ran{0};
  Enqueue(
      stream, [&] { return ++ran, 0; }, "test");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(ran, 1);
}

TEST_F(StreamTest, HoldingIsPatientButNotForever) {
  ScopedStream stream;
  Enqueue(
      stream,
      [&] {
        running_.Open();
        gate_.Wait(std::nullopt);  // not told to the stream: busy
        return 0;
      },
      "test");
  running_.Wait(std::nullopt);
  const Clock::time_point start = Clock::now();
  HoldStreams(std::chrono::milliseconds(20));
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(20));
  gate_.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

// A task may hold all streams, as one that ends the process does: it does not
// wait for itself.
TEST_F(StreamTest, HoldingInATaskDoesNotWaitForIt) {
  ScopedStream stream;
  Clock::duration took{};
  Enqueue(
      stream,
      [&] {
        const Clock::time_point start = Clock::now();
        HoldStreams(std::chrono::seconds(5));
        took = Clock::now() - start;
        ReleaseStreams();
        return 0;
      },
      "test");
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_LT(took, std::chrono::seconds(5));
}

TEST_F(StreamTest, SynchronizeAllReachesEveryContext) {
  std::atomic<int> ran{0};
  std::vector<aclrtContext> contexts(3);
  for (aclrtContext& context : contexts) {
    EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
    Enqueue(
        nullptr, [&] { return ++ran, 0; }, "test");
  }
  EXPECT_TRUE(Succeeds(SynchronizeAll()));
  EXPECT_EQ(ran, 3);
  for (aclrtContext context : contexts) {
    EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  }
}

}  // namespace
}  // namespace flashacl::acl
