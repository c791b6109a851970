// SPDX-License-Identifier: Apache-2.0
// Host functions and callbacks: where they run, in which order, and who waits
// for them.
#include "acl/callback.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/latch.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

void Add(void* at) { ++*static_cast<std::atomic<int>*>(at); }

uint64_t ThisThread() { return static_cast<uint64_t>(pthread_self()); }

// A thread that processes callbacks until it goes out of scope.
class Processor {
 public:
  Processor()
      : thread_([this] {
          id_ = ThisThread();
          ready_.Open();
          while (!stop_) {
            const aclError code = aclrtProcessReport(20);
            if (code == 0) ++rounds_;
            if (code != 0) Message();
          }
        }) {
    ready_.Wait(std::nullopt);
  }
  ~Processor() {
    stop_ = true;
    thread_.join();
  }
  uint64_t id() const { return id_; }
  int rounds() const { return rounds_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> rounds_{0};
  uint64_t id_ = 0;
  Latch ready_;
  std::thread thread_;
};

class CallbackTest : public ::flashacl::testing::RuntimeTest {
 protected:
  std::atomic<int> count_{0};
};

TEST_F(CallbackTest, HostFunctionsRunInOrderOnAnotherThread) {
  ScopedStream stream;
  struct Log {
    std::vector<int> order;
    std::thread::id thread;
  } log;
  struct Step {
    Log* log;
    int number;
  };
  std::vector<Step> steps;
  for (int i = 0; i < 50; ++i) steps.push_back({&log, i});
  for (Step& step : steps) {
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        stream,
        [](void* at) {
          const Step& s = *static_cast<Step*>(at);
          s.log->order.push_back(s.number);
          s.log->thread = std::this_thread::get_id();
        },
        &step)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  ASSERT_EQ(log.order.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(log.order[static_cast<size_t>(i)], i);
  EXPECT_NE(log.thread, std::this_thread::get_id());
}

TEST_F(CallbackTest, HostFunctionsMayCallTheRuntime) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream,
      [](void* at) {
        const aclrtStream self = *static_cast<ScopedStream*>(at);
        EXPECT_TRUE(FailsWith(507004, aclrtSynchronizeStream(self)));
        EXPECT_TRUE(FailsWith(507004, aclrtSynchronizeDevice()));
        EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
        aclrtEvent event = nullptr;
        EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
        EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, nullptr)));
        EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
        EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
      },
      &stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

TEST_F(CallbackTest, ArgumentsAreChecked) {
  ScopedStream stream;
  const auto type = static_cast<aclrtCallbackBlockType>(2);
  EXPECT_TRUE(FailsWith(107000, aclrtLaunchHostFunc(stream, nullptr, nullptr)));
  EXPECT_TRUE(FailsWith(
      107000,
      aclrtLaunchCallback(nullptr, nullptr, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtLaunchCallback(Add, &count_, type, stream)));
  EXPECT_TRUE(FailsWith(
      107015, aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  for (const int32_t ms : {0, -2, INT32_MIN}) {
    EXPECT_TRUE(FailsWith(100000, aclrtProcessReport(ms)));
    EXPECT_TRUE(FailsWith(100000, aclrtProcessHostFunc(ms)));
  }
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(5)));
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(-1)));
  EXPECT_TRUE(FailsWith(107011, aclrtUnSubscribeReport(ThisThread(), stream)));
  int local = 0;
  EXPECT_TRUE(FailsWith(107000, aclrtSubscribeReport(ThisThread(), &local)));
  EXPECT_TRUE(FailsWith(107000, aclrtUnSubscribeReport(ThisThread(), &local)));
  EXPECT_TRUE(FailsWith(107000, aclrtLaunchHostFunc(&local, Add, &count_)));
}

TEST_F(CallbackTest, OneThreadPerStreamManyStreamsPerThread) {
  ScopedStream a, b;
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), a)));
  EXPECT_TRUE(FailsWith(107011, aclrtSubscribeReport(ThisThread(), a)));
  EXPECT_TRUE(FailsWith(107011, aclrtSubscribeReport(1234, a)));
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), b)));
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), nullptr)));
  EXPECT_TRUE(FailsWith(507012, aclrtProcessReport(5)));
  EXPECT_TRUE(FailsWith(107011, aclrtUnSubscribeReport(1234, a)));
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(ThisThread(), a)));
  EXPECT_TRUE(FailsWith(107011, aclrtUnSubscribeReport(ThisThread(), a)));
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(ThisThread(), b)));
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(ThisThread(), nullptr)));
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(5)));
}

TEST_F(CallbackTest, ABlockingCallbackHoldsTheStream) {
  ScopedStream stream;
  Processor processor;
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(processor.id(), stream)));
  struct Shared {
    std::atomic<int> done{0};
    int seen_by_host = -1;
    std::thread::id callback_thread;
  } shared;
  EXPECT_TRUE(Succeeds(aclrtLaunchCallback(
      [](void* at) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        auto& s = *static_cast<Shared*>(at);
        s.callback_thread = std::this_thread::get_id();
        s.done = 1;
      },
      &shared, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream,
      [](void* at) {
        auto& s = *static_cast<Shared*>(at);
        s.seen_by_host = s.done;
      },
      &shared)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(shared.seen_by_host, 1);
  EXPECT_NE(shared.callback_thread, std::this_thread::get_id());
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(processor.id(), stream)));
}

TEST_F(CallbackTest, OthersDoNot) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), stream)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Succeeds(
        aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_NO_BLOCK, stream)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(count_, 0);
  // What is queued stays for the thread, even when it is not subscribed.
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(ThisThread(), stream)));
  EXPECT_TRUE(Succeeds(aclrtProcessReport(1000)));
  EXPECT_EQ(count_, 3);
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(5)));
}

TEST_F(CallbackTest, UnsubscribingEndsAnEndlessWait) {
  ScopedStream stream;
  Latch ready;
  uint64_t id = 0;
  std::thread thread([&] {
    id = ThisThread();
    EXPECT_TRUE(Succeeds(aclrtSubscribeReport(id, stream)));
    ready.Open();
    EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(-1)));
  });
  ready.Wait(std::nullopt);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(id, stream)));
  thread.join();
}

TEST_F(CallbackTest, AbortReleasesAStreamNobodyAnswers) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(1, stream)));  // no such thread
  EXPECT_TRUE(
      Succeeds(aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(1, stream)));
  EXPECT_EQ(count_, 0);
}

TEST_F(CallbackTest, ManyStreamsShareAProcessor) {
  Processor processor;
  std::vector<aclrtStream> streams(4);
  for (aclrtStream& stream : streams) {
    ASSERT_TRUE(Succeeds(aclrtCreateStream(&stream)));
    EXPECT_TRUE(Succeeds(aclrtSubscribeReport(processor.id(), stream)));
  }
  for (int i = 0; i < 100; ++i) {
    const auto type = i % 3 == 0 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK;
    EXPECT_TRUE(Succeeds(aclrtLaunchCallback(
        Add, &count_, type, streams[static_cast<size_t>(i) % 4])));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  while (count_ < 100) std::this_thread::yield();
  EXPECT_GT(processor.rounds(), 0);
  for (aclrtStream stream : streams) {
    EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(processor.id(), stream)));
    EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  }
}

// What the official sample does: one thread for the callbacks of a stream, and
// another for its host functions.
TEST_F(CallbackTest, TheTwoSubscriptionsOfAStreamAreIndependent) {
  ScopedStream stream;
  Processor processor;
  Latch ready;
  uint64_t other = 0;
  std::atomic<bool> stop{false};
  std::thread host_functions([&] {
    other = ThisThread();
    ready.Open();
    while (!stop) {
      EXPECT_NE(aclrtProcessHostFunc(5), 0);  // nothing comes here
      Message();
    }
  });
  ready.Wait(std::nullopt);
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(processor.id(), stream)));
  EXPECT_TRUE(Succeeds(aclrtSubscribeHostFunc(other, stream)));
  EXPECT_TRUE(FailsWith(107011, aclrtSubscribeHostFunc(1234, stream)));
  EXPECT_TRUE(
      FailsWith(107011, aclrtUnSubscribeHostFunc(processor.id(), stream)));
  EXPECT_TRUE(FailsWith(107011, aclrtUnSubscribeReport(other, stream)));
  EXPECT_TRUE(
      Succeeds(aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(stream, Add, &count_)));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Succeeds(
        aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(count_, 7);
  stop = true;
  host_functions.join();
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(processor.id(), stream)));
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeHostFunc(other, stream)));
  EXPECT_TRUE(FailsWith(107011, aclrtUnSubscribeHostFunc(other, stream)));
}

TEST_F(CallbackTest, HostFunctionSubscribersHaveNothingToRun) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSubscribeHostFunc(ThisThread(), stream)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(stream, Add, &count_)));
  EXPECT_TRUE(FailsWith(507012, aclrtProcessHostFunc(5)));
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(5)));
  EXPECT_TRUE(FailsWith(
      107015, aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(count_, 1);
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeHostFunc(ThisThread(), stream)));
  EXPECT_TRUE(FailsWith(107012, aclrtProcessHostFunc(5)));
}

TEST_F(CallbackTest, ALoopAheadOfItsSubscriptionWaits) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(50)));
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(-1)));
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(100));
  // And is there when it comes.
  ScopedStream stream;
  Latch ready;
  uint64_t id = 0;
  std::thread thread([&] {
    id = ThisThread();
    ready.Open();
    EXPECT_TRUE(Succeeds(aclrtProcessReport(20000)));
  });
  ready.Wait(std::nullopt);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(id, stream)));
  EXPECT_TRUE(
      Succeeds(aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  thread.join();
  EXPECT_EQ(count_, 1);
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(id, stream)));
}

TEST_F(CallbackTest, ABlockingCallbackMustNotWaitForItsStream) {
  ScopedStream stream;
  Processor processor;
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(processor.id(), stream)));
  EXPECT_TRUE(Succeeds(aclrtLaunchCallback(
      [](void* at) {
        const aclrtStream self = *static_cast<ScopedStream*>(at);
        EXPECT_TRUE(
            FailsWith(107000, aclrtSynchronizeStream(self), "callback"));
        EXPECT_TRUE(
            FailsWith(107000, aclrtSynchronizeStreamWithTimeout(self, 9)));
        EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
        EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeDevice()));
        EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
        EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
      },
      &stream, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(
      Succeeds(aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  // One that does not block may.
  EXPECT_TRUE(Succeeds(aclrtLaunchCallback(
      [](void* at) {
        const aclrtStream self = *static_cast<ScopedStream*>(at);
        EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(self)));
      },
      &stream, ACL_CALLBACK_NO_BLOCK, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(count_, 1);
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(processor.id(), stream)));
}

TEST_F(CallbackTest, TheSubscriberIsTheOneThatIsThereWhenTheStreamComes) {
  ScopedStream stream;
  struct Gate {
    Latch running, open;
  } gate;
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(1, stream)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream,
      [](void* at) {
        static_cast<Gate*>(at)->running.Open();
        static_cast<Gate*>(at)->open.Wait(std::nullopt);
      },
      &gate)));
  EXPECT_TRUE(Succeeds(
      aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_NO_BLOCK, stream)));
  gate.running.Wait(std::nullopt);
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(1, stream)));
  gate.open.Open();
  EXPECT_TRUE(FailsWith(107015, aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), stream)));
  EXPECT_TRUE(Succeeds(
      aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_NO_BLOCK, stream)));
  EXPECT_TRUE(Succeeds(aclrtProcessReport(20000)));
  EXPECT_EQ(count_, 1);
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(ThisThread(), stream)));
}

TEST_F(CallbackTest, DestroyingAStreamDropsWhatNobodyWillRun) {
  aclrtStream stream = nullptr;
  // Its thread has unsubscribed, and still runs what it likes to.
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), stream)));
  EXPECT_TRUE(
      Succeeds(aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 20)));
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(ThisThread(), stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(5)));
  // Its thread has ended.
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  std::thread([&] {
    EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), stream)));
    EXPECT_TRUE(FailsWith(507012, aclrtProcessReport(1)));
  }).join();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Succeeds(
        aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  }
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  EXPECT_EQ(count_, 0);
}

TEST_F(CallbackTest, WhatALiveThreadShallRunStaysAfterTheStream) {
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), stream)));
  EXPECT_TRUE(Succeeds(
      aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_NO_BLOCK, stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtProcessReport(5)));
  EXPECT_EQ(count_, 1);
  EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(5)));
}

TEST_F(CallbackTest, AnAbortDropsTheCallbackThatTheStreamWaitsFor) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(ThisThread(), stream)));
  EXPECT_TRUE(
      Succeeds(aclrtLaunchCallback(Add, &count_, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 20)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(FailsWith(507012, aclrtProcessReport(5)));
  EXPECT_EQ(count_, 0);
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(ThisThread(), stream)));
}

}  // namespace
}  // namespace flashacl::acl
