// SPDX-License-Identifier: Apache-2.0
// Replays, names and the end of graphs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/device_fault.h"
#include "acl/graph/graph.h"
#include "acl/graph/print.h"
#include "acl/graph/replay_queue.h"
#include "acl/stream.h"
#include "tests/acl/graph/fixture.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::testing {
namespace {

using GraphApi = GraphTest;

// Puts a task that answers `code` on `stream`.
void Answer(aclrtStream stream, std::atomic<aclError>* code) {
  EXPECT_TRUE(Succeeds(acl::Enqueue(
      stream, [code] { return code->load(); }, "test")));
}

TEST_F(GraphApi, NullsAndOthersAreRefused) {
  ScopedStream stream;
  uint32_t id = 0;
  char name[8];
  const auto nothing = [](void*) {};
  const std::vector<std::function<aclError(aclmdlRI)>> calls = {
      [&](aclmdlRI g) { return aclmdlRIExecuteAsync(g, stream); },
      [](aclmdlRI g) { return aclmdlRIExecute(g, -1); },
      [](aclmdlRI g) { return aclmdlRIAbort(g); },
      [](aclmdlRI g) { return aclmdlRIDestroy(g); },
      [&](aclmdlRI g) { return aclmdlRIGetId(g, &id); },
      [](aclmdlRI g) { return aclmdlRISetName(g, ""); },
      [&](aclmdlRI g) { return aclmdlRIGetName(g, 8, name); },
      [](aclmdlRI g) { return aclmdlRIDebugPrint(g); },
      [](aclmdlRI g) { return aclmdlRIDebugJsonPrint(g, "x", 0); },
      [&](aclmdlRI g) {
        return aclmdlRIDestroyRegisterCallback(g, nothing, nullptr);
      },
      [&](aclmdlRI g) { return aclmdlRIDestroyUnregisterCallback(g, nothing); },
  };
  Begin(stream);
  const aclmdlRI graph = End(stream);
  Destroy(graph);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_TRUE(FailsWith(100000, calls[i](nullptr), "modelRI")) << i;
    EXPECT_TRUE(FailsWith(107000, calls[i](stream), "graph")) << i;
    EXPECT_TRUE(FailsWith(107000, calls[i](graph), "destroyed")) << i;
  }
}

TEST_F(GraphApi, OneThatIsCapturedIsNotReplayedOrDestroyed) {
  ScopedStream stream;
  Begin(stream);
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
  EXPECT_TRUE(FailsWith(107026, aclmdlRIExecuteAsync(graph, nullptr)));
  EXPECT_TRUE(FailsWith(107026, aclmdlRIExecute(graph, -1)));
  EXPECT_TRUE(FailsWith(107026, aclmdlRIDestroy(graph)));
  EXPECT_TRUE(FailsWith(107026, aclmdlRIDebugJsonPrint(graph, "x", 0)));
  Destroy(End(stream));
}

TEST_F(GraphApi, ATaskThatFailsEndsItsReplay) {
  ScopedStream stream;
  std::atomic<aclError> code{0};
  Begin(stream);
  Say(stream, "a");
  Answer(stream, &code);
  Say(stream, "b");
  const aclmdlRI graph = End(stream);
  code = 507015;
  acl::ClearFaults(0);
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  Say(stream, "c");
  EXPECT_EQ(aclrtSynchronizeStream(stream), 507015);
  EXPECT_TRUE(DeviceHasFailed());
  EXPECT_EQ(Log(), "ac");
  code = 0;
  Replay(graph, stream);
  EXPECT_EQ(Log(), "ab");
  code = 507015;
  EXPECT_EQ(aclmdlRIExecute(graph, -1), 507015);
  Message();
  Destroy(graph);
}

TEST_F(GraphApi, AStreamThatStopsOnFailureRunsNoMoreOfItsOperators) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE)));
  std::atomic<aclError> good{0};
  std::atomic<aclError> bad{507015};
  std::atomic<int> runs{0};
  Begin(stream);
  EXPECT_TRUE(Succeeds(acl::Enqueue(
      stream, [&] { return ++runs, 0; }, "test")));
  Say(stream, "a");
  const aclmdlRI graph = End(stream);
  Answer(stream, &bad);
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_EQ(aclrtSynchronizeStream(stream), 507015);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(Log(), "a");  // others may wait for what it does
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  Destroy(graph);
}

TEST_F(GraphApi, ReplaysOfOneGraphDoNotOverlap) {
  std::vector<std::unique_ptr<ScopedStream>> streams(4);
  for (auto& one : streams) one = std::make_unique<ScopedStream>();
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> total{0};
  Begin(*streams[0]);
  EXPECT_TRUE(Succeeds(acl::Enqueue(
      *streams[0],
      [&] {
        most = std::max(most.load(), ++inside);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        --inside;
        ++total;
        return 0;
      },
      "test")));
  const aclmdlRI graph = End(*streams[0]);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, *streams[size_t(i % 4)])));
  }
  for (auto& one : streams) EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(*one)));
  EXPECT_EQ(total, 100);
  EXPECT_EQ(most, 1);
  Destroy(graph);
}

// In the order in which streams come to it; one that is aborted while it waits,
// first, between others or last, lets the others go on, and comes last when it
// comes again.
TEST_F(GraphApi, ReplaysAreQueuedInOrder) {
  for (const int aborted : {-1, 1, 2, 3}) {
    ScopedStream streams[4];
    ScopedEvent event{ScopedEvent::External()};
    std::string ran;
    ScopedStream first;
    Begin(first);
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(first, event)));
    EXPECT_TRUE(Succeeds(acl::Enqueue(
        first,
        [&] {
          for (int i = 0; i < 4; ++i) {
            if (acl::ThisStream().handle() == aclrtStream(streams[i])) {
              ran += static_cast<char>('a' + i);
            }
          }
          return 0;
        },
        "test")));
    const aclmdlRI graph = End(first);
    const auto queue = [&](aclrtStream stream) {
      EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
      // It has come to the graph.
      EXPECT_TRUE(
          FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 20)));
    };
    for (const auto& stream : streams) queue(stream);
    std::string expected = "abcd";
    if (aborted >= 0) {
      EXPECT_TRUE(Succeeds(aclrtStreamAbort(streams[aborted])));
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(streams[aborted])));
      queue(streams[aborted]);
      expected.erase(static_cast<size_t>(aborted), 1);
      expected += static_cast<char>('a' + aborted);
    }
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, first)));
    for (const auto& stream : streams) {
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStreamWithTimeout(stream, 10000)));
    }
    EXPECT_EQ(ran, expected) << aborted;
    Destroy(graph);
  }
}

TEST_F(GraphApi, ExecuteWaits) {
  ScopedStream stream;
  ScopedEvent event{ScopedEvent::External()};
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
  Say(stream, "a");
  const aclmdlRI graph = End(stream);
  EXPECT_TRUE(FailsWith(107000, aclmdlRIExecute(graph, 0)));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIExecute(graph, -2)));
  EXPECT_TRUE(FailsWith(507046, aclmdlRIExecute(graph, 5)));
  EXPECT_EQ(Log(), "");
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecute(graph, -1)));
  EXPECT_EQ(Log(), "aa");
  Destroy(graph);
}

TEST_F(GraphApi, AnAbortEndsTheReplayThatRuns) {
  ScopedStream stream;
  ScopedEvent event{ScopedEvent::External()};
  Begin(stream);
  Say(stream, "a");
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
  Say(stream, "b");
  const aclmdlRI graph = End(stream);
  EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));  // nothing runs
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  std::string log;
  while (log.empty()) log = Log();
  EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));
  EXPECT_TRUE(FailsWith(507023, aclrtSynchronizeStream(stream), "aborted"));
  EXPECT_EQ(log + Log(), "a");
  // The stream waits again, and the graph runs again.
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(Log(), "a");
  Destroy(graph);
}

TEST_F(GraphApi, DestroyWaitsForReplaysAndCallsBack) {
  ScopedStream stream;
  ScopedEvent event{ScopedEvent::External()};
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
  const aclmdlRI graph = End(stream);
  static std::atomic<int> called;
  called = 0;
  const auto callback = [](void* by) { called += *static_cast<int*>(by); };
  const auto other = [](void*) { called += 100; };
  int three = 3;
  EXPECT_TRUE(
      Succeeds(aclmdlRIDestroyRegisterCallback(graph, callback, &three)));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroyRegisterCallback(graph, other, nullptr)));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroyUnregisterCallback(graph, other)));
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRIDestroyUnregisterCallback(graph, other)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  std::thread record([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    aclrtSetDevice(0);
    ScopedStream own;
    EXPECT_EQ(called, 0);
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, own)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(own)));
    aclrtResetDevice(0);
  });
  Destroy(graph);
  record.join();
  EXPECT_EQ(called, 3);
}

TEST_F(GraphApi, DestroyGivesUpAndTheGraphLivesOn) {
  ScopedStream stream;
  ScopedEvent event{ScopedEvent::External()};
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
  const aclmdlRI graph = End(stream);
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(FailsWith(107037, aclmdlRIDestroy(graph)));  // after 10 s
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  Destroy(graph);
}

// A graph goes with its context; a replay elsewhere that is under way goes on.
TEST_F(GraphApi, EndsWithItsContext) {
  ScopedStream elsewhere;
  ScopedEvent event{ScopedEvent::External()};
  aclrtContext before = nullptr;
  aclrtContext context = nullptr;
  ASSERT_TRUE(Succeeds(aclrtGetCurrentContext(&before)));
  ASSERT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  aclrtStream stream = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
  Say(stream, "a");
  const aclmdlRI graph = End(stream);
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, elsewhere)));
  EXPECT_TRUE(
      FailsWith(507046, aclrtSynchronizeStreamWithTimeout(elsewhere, 5)));
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  ASSERT_TRUE(Succeeds(aclrtSetCurrentContext(before)));
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRIExecuteAsync(graph, elsewhere), "destroyed"));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIDestroy(graph), "destroyed"));
  ScopedStream records;
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, records)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(elsewhere)));
  EXPECT_EQ(Log(), "a");
}

TEST_F(GraphApi, NamesAndNumbers) {
  ScopedStream stream;
  Begin(stream);
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
  uint32_t early = 0;
  uint32_t id = 0;
  EXPECT_TRUE(Succeeds(aclmdlRIGetId(graph, &early)));
  EXPECT_EQ(End(stream), graph);
  EXPECT_TRUE(Succeeds(aclmdlRIGetId(graph, &id)));
  EXPECT_EQ(id, early);
  EXPECT_GE(id, 1u);
  EXPECT_TRUE(FailsWith(100000, aclmdlRIGetId(graph, nullptr)));
  char name[8] = "x";
  EXPECT_TRUE(Succeeds(aclmdlRIGetName(graph, 1, name)));
  EXPECT_STREQ(name, "");
  EXPECT_TRUE(Succeeds(aclmdlRISetName(graph, "decode")));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIGetName(graph, 6, name), "7"));
  EXPECT_STREQ(name, "");
  EXPECT_TRUE(Succeeds(aclmdlRIGetName(graph, 7, name)));
  EXPECT_STREQ(name, "decode");
  EXPECT_TRUE(FailsWith(100000, aclmdlRISetName(graph, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclmdlRIGetName(graph, 8, nullptr)));
  Destroy(graph);
}

TEST_F(GraphApi, PrintsItsTasks) {
  ScopedStream stream, other;
  ScopedEvent fork, join;
  TinyCall call(1);
  Begin(stream);
  EXPECT_TRUE(Succeeds(Launch(call, stream)));
  Follow(other, stream, fork);
  Say(other, "a");
  Follow(stream, other, join);
  Say(stream, "b");
  const aclmdlRI graph = End(stream);
  const std::string path = ::testing::TempDir() + "flashacl_graph.json";
  for (const uint32_t flags : {0u, 1u}) {
    EXPECT_TRUE(Succeeds(aclmdlRIDebugJsonPrint(graph, path.c_str(), flags)));
    const auto events = nlohmann::json::parse(std::ifstream(path));
    ASSERT_EQ(events.size(), 3u);
    EXPECT_EQ(events[0]["name"], "tiny");
    EXPECT_EQ(events[0]["args"].contains("computes"), flags == 1);
    EXPECT_EQ(events[1]["name"], "aclrtLaunchHostFunc");
    EXPECT_NE(events[1]["tid"], events[0]["tid"]);
    EXPECT_EQ(events[1]["args"]["after"][0]["tasks"], 1);
    EXPECT_EQ(events[2]["tid"], events[0]["tid"]);
    EXPECT_EQ(events[2]["ts"], 2);
  }
  std::remove(path.c_str());
  EXPECT_TRUE(FailsWith(100000, aclmdlRIDebugJsonPrint(graph, nullptr, 0)));
  EXPECT_TRUE(FailsWith(
      107000, aclmdlRIDebugJsonPrint(graph, "/nowhere/graph.json", 0), "path"));
  EXPECT_TRUE(Succeeds(aclmdlRIDebugPrint(graph)));
  Destroy(graph);
}

}  // namespace
}  // namespace flashacl::testing
