// SPDX-License-Identifier: Apache-2.0
// What graphs that are built by hand keep, and how they end.
#include "acl/graph/build.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "acl/stream.h"
#include "tests/acl/graph/build_fixture.h"

namespace flashacl::testing {
namespace {

TEST_F(BuildTest, KeepsWhatABoundStreamIsGiven) {
  ScopedStream stream;
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  auto* const word = Number<uint32_t>(1);
  TinyCall call(1);
  call.SetValue(3.0f);
  Say(bound, "a");
  EXPECT_TRUE(Succeeds(Launch(call, bound)));
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(word, 4, 0, 4, bound)));
  Finish(graph, bound);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(bound)));  // has nothing to do
  EXPECT_EQ(Log(), "");
  EXPECT_EQ(*word, 1u);
  Replay(graph, stream);
  EXPECT_EQ(Log(), "a");
  EXPECT_EQ(*word, 0u);
  EXPECT_EQ(call.out_data[0], 3.0f);
  EXPECT_EQ(Run(graph), "a");
  Destroy(graph);
}

TEST_F(BuildTest, StreamsThatNobodyStartsDoNotRun) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream first = Bound(graph);
  const aclrtStream never = Bound(graph, kDefault);
  Say(first, "a");
  Say(never, "b");
  Finish(graph, first);
  EXPECT_EQ(Run(graph), "a");
  Destroy(graph);
}

TEST_F(BuildTest, NothingRunsAfterTheEnd) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream first = Bound(graph);
  Say(first, "a");
  EXPECT_TRUE(Succeeds(aclmdlRIEndTask(graph, first)));
  Say(first, "b");
  EXPECT_TRUE(Succeeds(aclmdlRIBuildEnd(graph, nullptr)));
  EXPECT_EQ(Run(graph), "a");
  Destroy(graph);
}

TEST_F(BuildTest, EventsOrderItsStreamsInEachReplay) {
  for (const bool plain : {false, true}) {
    aclrtEvent event = nullptr;
    EXPECT_TRUE(
        Succeeds(plain ? aclrtCreateEvent(&event)
                       : aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC)));
    const aclmdlRI graph = NewGraph();
    const aclrtStream first = Bound(graph);
    const aclrtStream second = Bound(graph);
    // Waits for what is recorded later.
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(second, event)));
    Say(second, "b");
    Do(first, [] { std::this_thread::yield(); });
    Say(first, "a");
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, first)));
    Finish(graph, second);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(Run(graph), "ab");
    // Others see the record.
    EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
    auto status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    EXPECT_TRUE(Succeeds(aclrtQueryEventStatus(event, &status)));
    EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    Destroy(graph);
    EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  }
}

TEST_F(BuildTest, WaitsForEventsOfTheWorldOutside) {
  ScopedStream outside;
  ScopedEvent event, never;
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(bound, event)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(bound, never)));
  Say(bound, "b");
  Finish(graph, bound);
  Do(outside,
     [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
  Say(outside, "a");
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, outside)));
  EXPECT_EQ(Run(graph), "ab");
  Destroy(graph);
}

// As streams do, of events that are for that.
TEST_F(BuildTest, WaitsForAFirstRecord) {
  ScopedStream outside, other;
  aclrtEvent event = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC)));
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(bound, event)));
  Say(bound, "a");
  Finish(graph, bound);
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, outside)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(outside, 5)));
  EXPECT_EQ(Log(), "");
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, other)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(outside)));
  EXPECT_EQ(Log(), "a");
  Destroy(graph);
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// What went with its stream is not waited for.
TEST_F(BuildTest, UnboundRecordsAreNotWaitedFor) {
  ScopedEvent event;
  const aclmdlRI graph = NewGraph();
  const aclrtStream unbound = Bound(graph);
  const aclrtStream bound = Bound(graph);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, unbound)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, unbound)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(bound, event)));
  EXPECT_TRUE(Succeeds(aclmdlRIUnbindStream(graph, unbound)));
  Say(bound, "a");
  Finish(graph, bound);
  EXPECT_EQ(Run(graph), "a");
  Destroy(graph);
}

// A replay looks at the graph's events meanwhile, which the thread sanitizer
// watches.
TEST_F(BuildTest, RefusedEventsChangeNothing) {
  ScopedStream stream;
  ScopedEvent event;
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, bound)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(bound, event)));
  Finish(graph, bound);
  for (int i = 0; i < 100; ++i) {
    ScopedEvent refused;
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    EXPECT_TRUE(FailsWith(107005, aclrtStreamWaitEvent(bound, refused)));
    EXPECT_TRUE(FailsWith(107005, aclrtResetEvent(refused, bound)));
    EXPECT_TRUE(FailsWith(107005, aclrtRecordEvent(refused, bound)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  Destroy(graph);
}

TEST_F(BuildTest, ExternalEventsAreTheProgramsFlags) {
  ScopedStream outside;
  ScopedEvent event{ScopedEvent::External()};
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(bound, event)));
  EXPECT_TRUE(Succeeds(aclrtResetEvent(event, bound)));
  Say(bound, "a");
  Finish(graph, bound);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, outside)));
    EXPECT_TRUE(
        FailsWith(507046, aclrtSynchronizeStreamWithTimeout(outside, 5)));
    ScopedStream other;
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, other)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(outside)));
    EXPECT_EQ(Log(), "a");
  }
  Destroy(graph);
}

TEST_F(BuildTest, AWaitThatTakesTooLongFailsTheReplay) {
  ScopedStream stream;
  ScopedEvent event;
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEventWithTimeout(bound, event, 1)));
  Say(bound, "a");
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, bound)));
  Finish(graph, bound);
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(FailsWith(107019, aclrtSynchronizeStream(stream), "in vain"));
  EXPECT_EQ(Log(), "");
  Destroy(graph);
}

// Three rounds of two streams that wait for each other by one pair of events.
TEST_F(BuildTest, AResetMakesWaitsWaitAgain) {
  ScopedEvent go, done;
  const aclmdlRI graph = NewGraph();
  const aclrtStream first = Bound(graph);
  const aclrtStream second = Bound(graph);
  auto* const left = Number<uint32_t>(3);
  auto* const next = Number<uint32_t>(0);
  auto* const other = Number<uint32_t>(0);
  const auto labels = Labels(4);
  Set(labels[0], first);
  Say(first, "a");
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(go, first)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(first, done)));
  EXPECT_TRUE(Succeeds(aclrtResetEvent(done, first)));
  Do(first, [=] { *next = --*left == 0 ? 1 : 0; });
  Switch(first, next, {labels[0], labels[1]});
  Set(labels[1], first);
  Set(labels[2], second);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(second, go)));
  EXPECT_TRUE(Succeeds(aclrtResetEvent(go, second)));
  Say(second, "b");
  Do(second, [=] { *other = *left == 1 ? 1 : 0; });
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(done, second)));
  Switch(second, other, {labels[2], labels[3]});
  Set(labels[3], second);
  Finish(graph, first);
  EXPECT_EQ(Run(graph), "ababab");
  Destroy(graph);
}

TEST_F(BuildTest, CallbacksAreServedByTheSubscriberOfTheBoundStream) {
  ScopedStream stream;
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  const auto thread = static_cast<uint64_t>(pthread_self());
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(thread, bound)));
  int called = 0;
  EXPECT_TRUE(
      Succeeds(aclrtLaunchCallback([](void* n) { ++*static_cast<int*>(n); },
                                   &called, ACL_CALLBACK_BLOCK, bound)));
  Say(bound, "a");
  Finish(graph, bound);
  for (int i = 1; i <= 2; ++i) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    while (called < i) (void)aclrtProcessReport(1000);
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    EXPECT_EQ(Log(), "a");
  }
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(thread, bound)));
  Destroy(graph);
}

TEST_F(BuildTest, ATaskThatFailsEndsItsReplay) {
  ScopedStream stream;
  for (const bool two : {false, true}) {
    ScopedEvent never;
    std::atomic<aclError> code{507015};
    const aclmdlRI graph = NewGraph();
    const aclrtStream bound = Bound(graph);
    if (two) {
      const aclrtStream other = Bound(graph);
      Do(other, [] {});
    }
    Say(bound, "a");
    EXPECT_TRUE(Succeeds(acl::Enqueue(
        bound, [&] { return code.load(); }, "test")));
    Say(bound, "b");
    Finish(graph, bound);
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    EXPECT_EQ(aclrtSynchronizeStream(stream), 507015);
    Message();
    EXPECT_EQ(Log(), "a");
    code = 0;
    EXPECT_EQ(Run(graph), "ab");
    Destroy(graph);
  }
}

TEST_F(BuildTest, AStreamThatStopsOnFailureRunsNoMoreOfItsOperators) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE)));
  std::atomic<int> runs{0};
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  const auto labels = Labels(1);
  Set(labels[0], bound);
  EXPECT_TRUE(Succeeds(acl::Enqueue(
      bound, [&] { return ++runs, 0; }, "test")));
  Say(bound, "a");
  Switch(bound, Number<uint32_t>(0), labels);  // for ever, else
  Finish(graph, bound);
  EXPECT_TRUE(Succeeds(acl::Enqueue(
      stream, [] { return 507015; }, "test")));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_EQ(aclrtSynchronizeStream(stream), 507015);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(Log(), "a");
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  Destroy(graph);
}

TEST_F(BuildTest, AnUnboundStreamCanBeBoundAnew) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream first = Bound(graph);
  const aclrtStream other = Bound(graph);
  const auto labels = Labels(1);
  Say(first, "a");
  Set(labels[0], other);
  Say(other, "b");
  EXPECT_TRUE(Succeeds(aclmdlRIUnbindStream(graph, other)));  // with all it had
  EXPECT_TRUE(Succeeds(aclmdlRIBindStream(graph, other, kHead)));
  Set(labels[0], other);
  Finish(graph, first);
  EXPECT_EQ(Run(graph), "a");
  EXPECT_TRUE(Succeeds(aclmdlRIUnbindStream(graph, first)));
  EXPECT_TRUE(FailsWith(507011, aclmdlRIExecute(graph, -1), "unbound"));
  const aclmdlRI second = NewGraph();
  EXPECT_TRUE(Succeeds(aclmdlRIBindStream(second, first, kHead)));
  Say(first, "c");
  Finish(second, first);
  EXPECT_EQ(Run(second), "c");
  Destroy(second);
  Destroy(graph);  // unbinds the other
}

TEST_F(BuildTest, CanBeDestroyedAtAnyTime) {
  Destroy(NewGraph());
  const aclmdlRI graph = NewGraph();
  const aclrtStream bound = Bound(graph);
  Say(bound, "a");
  Destroy(graph);
  EXPECT_TRUE(FailsWith(107000, aclmdlRIEndTask(graph, bound), "destroyed"));
  EXPECT_TRUE(FailsWith(107005, aclrtLaunchHostFunc(
                                    bound, [](void*) {}, nullptr)));
}

TEST_F(BuildTest, EndsWithItsContext) {
  aclrtContext context = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  aclrtStream stream = nullptr;
  EXPECT_TRUE(
      Succeeds(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT)));
  const aclmdlRI graph = NewGraph();
  aclrtLabel label = nullptr;
  aclrtLabelList list = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRIBindStream(graph, stream, kHead)));
  EXPECT_TRUE(Succeeds(aclrtCreateLabel(&label)));
  EXPECT_TRUE(Succeeds(aclrtCreateLabelList(&label, 1, &list)));
  Set(label, stream);
  Say(stream, "a");
  Finish(graph, stream);
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIExecute(graph, -1), "destroyed"));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyLabel(label), "destroyed"));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyLabelList(list), "destroyed"));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
}

TEST_F(BuildTest, ThreadsMayFillAndReplayIt) {
  constexpr int kThreads = 4, kTasks = 50, kReplays = 20;
  const aclmdlRI graph = NewGraph();
  std::vector<aclrtStream> bound;
  for (int i = 0; i < kThreads; ++i) bound.push_back(Bound(graph));
  std::atomic<int> runs{0};
  const auto together = [&](auto body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
        body(i);
        EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
      });
    }
    for (std::thread& one : threads) one.join();
  };
  together([&](int i) {
    for (int n = 0; n < kTasks; ++n) {
      EXPECT_TRUE(Succeeds(acl::Enqueue(
          bound[static_cast<size_t>(i)], [&] { return ++runs, 0; }, "test")));
    }
  });
  Finish(graph, bound[0]);
  together([&](int) {
    ScopedStream stream;
    for (int n = 0; n < kReplays; ++n) {
      EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    }
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  });
  EXPECT_EQ(runs, kThreads * kTasks * kThreads * kReplays);
  Destroy(graph);
}

TEST_F(BuildTest, PrintsItsTasksAndJumps) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream first = Bound(graph);
  const aclrtStream second = Bound(graph, kDefault);
  TinyCall call(1);
  EXPECT_TRUE(Succeeds(Launch(call, first)));
  EXPECT_TRUE(Succeeds(aclrtActiveStream(second, first)));
  Say(second, "a");
  Finish(graph, first);
  const std::string path = ::testing::TempDir() + "flashacl_built.json";
  EXPECT_TRUE(Succeeds(aclmdlRIDebugJsonPrint(graph, path.c_str(), 1)));
  const auto events = nlohmann::json::parse(std::ifstream(path));
  std::remove(path.c_str());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_TRUE(events[0]["args"].contains("computes"));
  EXPECT_EQ(events[1]["name"], "aclrtActiveStream");
  EXPECT_EQ(events[1]["args"]["kind"], "jump");
  EXPECT_EQ(events[1]["args"]["to"][0]["row"], events[3]["tid"]);
  EXPECT_EQ(events[2]["name"], "aclmdlRIEndTask");
  EXPECT_EQ(events[3]["ts"], 3);
  EXPECT_TRUE(Succeeds(aclmdlRIDebugPrint(graph)));
  uint32_t id = 0;
  EXPECT_TRUE(Succeeds(aclmdlRIGetId(graph, &id)));
  EXPECT_EQ(events[0]["pid"], id);
  Destroy(graph);
}

}  // namespace
}  // namespace flashacl::testing
