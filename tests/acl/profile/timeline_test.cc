// SPDX-License-Identifier: Apache-2.0
// What is recorded: every span where it belongs, nothing of other times, and no
// more than there is room for.
#include "acl/profile/timeline.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/profile/trace_json.h"
#include "tests/acl/profile/trace_reader.h"
#include "tests/testing/runtime.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::acl::profile {
namespace {

using ::flashacl::testing::Json;
using ::flashacl::testing::ReadTrace;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;
using ::flashacl::testing::TemporaryFolder;
using ::flashacl::testing::TinyCall;

class Timeline : public RuntimeTest {
 protected:
  // What was recorded while `body` ran, written and read back.
  template <typename F>
  ReadTrace Trace(F&& body) {
    const int64_t begin_ns = StartRecording();
    body();
    const Recorded recorded = StopRecording(begin_ns);
    const std::string path = folder_ / "trace.json";
    EXPECT_TRUE(WriteTrace(recorded, path).ok());
    return ReadTrace(path);
  }

 private:
  TemporaryFolder folder_;
};

int64_t IdOf(aclrtStream stream) {
  int32_t id = -1;
  EXPECT_EQ(aclrtStreamGetId(stream, &id), 0);
  return id;
}

void Launch(TinyCall& call, aclrtStream stream) {
  ASSERT_EQ(call.Prepare(), 0);
  std::vector<char> workspace(call.workspace_size);
  ASSERT_EQ(
      acl::Launch(workspace.data(), workspace.size(), call.executor, stream),
      0);
  ASSERT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

TEST_F(Timeline, HasPlansLaunchesAndRunsOfTwoThreadsAndThreeStreams) {
  constexpr int kLaunches = 5;
  const ScopedStream streams[3];
  const ReadTrace trace = Trace([&] {
    const auto launch = [&](int first) {
      ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
      TinyCall call(3);
      for (int n = 0; n < kLaunches; ++n) {
        Launch(call, streams[(first + n) % 3]);
      }
    };
    std::thread one(launch, 0);
    std::thread other(launch, 1);
    one.join();
    other.join();
  });
  std::set<int64_t> threads;
  for (const Json& plan : trace.Named("tinyGetWorkspaceSize")) {
    threads.insert(plan["tid"].get<int64_t>());
    EXPECT_EQ(plan["cat"], "plan");
    EXPECT_FALSE(ReadTrace::OfStream(plan));
    EXPECT_NE(plan["args"]["problem"].get<std::string>(), "");
  }
  EXPECT_EQ(threads.size(), 2u);
  const std::vector<Json> launches = trace.With("X", "cat", "launch");
  const std::vector<Json> runs = trace.With("X", "cat", "operator");
  EXPECT_EQ(launches.size(), 2u * kLaunches);
  ASSERT_EQ(runs.size(), 2u * kLaunches);
  std::set<int64_t> rows;
  for (const Json& run : runs) {
    EXPECT_EQ(run["name"], "tiny");
    EXPECT_TRUE(ReadTrace::OfStream(run));
    EXPECT_EQ(run["tid"], RowOfStream(run["args"]["stream"]));
    EXPECT_NE(run["args"]["implementation"].get<std::string>(), "");
    EXPECT_NE(run["args"]["plan"].get<std::string>(), "");
    rows.insert(run["tid"].get<int64_t>());
  }
  EXPECT_EQ(rows.size(), 3u);
  // Each launch has its run on the stream that it named, after it began.
  for (const Json& launch : launches) {
    int found = 0;
    for (const Json& run : runs) {
      if (run["args"]["stream"] != launch["args"]["stream"] ||
          run["args"]["task"] != launch["args"]["task"]) {
        continue;
      }
      ++found;
      EXPECT_GE(ReadTrace::Begin(run), ReadTrace::Begin(launch));
    }
    EXPECT_EQ(found, 1) << launch;
  }
  EXPECT_EQ(trace.dropped(), 0);
}

TEST_F(Timeline, HasCopiesWithTheirBytes) {
  constexpr size_t kBytes = 4096;
  const ScopedStream stream;
  void* device = nullptr;
  void* host = nullptr;
  ASSERT_TRUE(
      Succeeds(aclrtMalloc(&device, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&host, kBytes)));
  const ReadTrace trace = Trace([&] {
    EXPECT_TRUE(Succeeds(
        aclrtMemcpy(device, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE)));
    EXPECT_TRUE(Succeeds(aclrtMemcpyAsync(host, kBytes, device, 96,
                                          ACL_MEMCPY_DEVICE_TO_HOST, stream)));
    EXPECT_TRUE(Succeeds(aclrtMemcpy2dAsync(
        host, 64, device, 64, 32, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream)));
    EXPECT_TRUE(Succeeds(aclrtMemsetAsync(device, kBytes, 1, 48, stream)));
    EXPECT_TRUE(Succeeds(aclrtMemsetD32Async(device, kBytes, 1, 2, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  });
  ASSERT_EQ(trace.Named("aclrtMemcpy").size(), 1u);
  EXPECT_EQ(trace.Named("aclrtMemcpy")[0]["args"]["bytes"], kBytes);
  for (const auto& [name, bytes] :
       std::vector<std::pair<const char*, int>>{{"aclrtMemcpyAsync", 96},
                                                {"aclrtMemcpy2dAsync", 128},
                                                {"aclrtMemsetAsync", 48},
                                                {"aclrtMemsetD32Async", 8}}) {
    SCOPED_TRACE(name);
    const std::vector<Json> spans = trace.Named(name);
    ASSERT_EQ(spans.size(), 2u);  // the call, and its run
    EXPECT_EQ(spans[0]["cat"], "call");
    EXPECT_EQ(spans[1]["cat"], "memory");
    EXPECT_EQ(spans[1]["args"]["bytes"], bytes);
    EXPECT_EQ(spans[1]["tid"], RowOfStream(static_cast<int>(IdOf(stream))));
    EXPECT_EQ(spans[0]["args"]["task"], spans[1]["args"]["task"]);
  }
  EXPECT_TRUE(Succeeds(aclrtFree(device)));
  EXPECT_TRUE(Succeeds(aclrtFreeHost(host)));
}

struct Waits {
  int of_streams = 0;
  int of_threads = 0;
};

Waits WaitsIn(const ReadTrace& trace) {
  Waits waits;
  for (const Json& wait : trace.With("X", "cat", "wait")) {
    ++(ReadTrace::OfStream(wait) ? waits.of_streams : waits.of_threads);
  }
  return waits;
}

TEST_F(Timeline, HasWaitsAndCallbacks) {
  const ScopedStream one;
  const ScopedStream other;
  aclrtEvent event = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC)));
  // A thread that the system holds up finds that there is nothing to wait for.
  bool waited = false;
  for (int n = 0; n < 100 && !waited; ++n) {
    const ReadTrace trace = Trace([&] {
      const auto sleep = [](void*) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      };
      EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(one, sleep, nullptr)));
      EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, one)));
      EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, event)));
      EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
    });
    const std::vector<Json> callbacks = trace.With("X", "cat", "callback");
    ASSERT_EQ(callbacks.size(), 1u);
    EXPECT_EQ(callbacks[0]["tid"], RowOfStream(static_cast<int>(IdOf(one))));
    EXPECT_GE(ReadTrace::End(callbacks[0]) - ReadTrace::Begin(callbacks[0]),
              5'000'000);
    const Waits waits = WaitsIn(trace);
    EXPECT_LE(waits.of_streams, 1);
    EXPECT_LE(waits.of_threads, 2);
    waited = waits.of_streams == 1 && waits.of_threads == 2;
  }
  EXPECT_TRUE(waited);
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

TEST_F(Timeline, ShowsWhatACallAnswered) {
  const ReadTrace trace = Trace([] { EXPECT_NE(aclrtSetDevice(-1), 0); });
  ASSERT_EQ(trace.Named("aclrtSetDevice").size(), 1u);
  EXPECT_EQ(trace.Named("aclrtSetDevice")[0]["args"]["error"], 107001);
  (void)aclGetRecentErrMsg();
}

TEST_F(Timeline, EscapesNames) {
  const std::string text = "a \"quoted\"\n\\name\t\x01, \xC3\xA9, \xFF";
  const ReadTrace trace = Trace([&] {
    const int64_t now = Now();
    Add({.kind = Kind::kMark,
         .begin_ns = now,
         .end_ns = now,
         .said = std::make_shared<const Said>(Said{text})});
  });
  std::string shown = text;
  shown.replace(shown.find('\xFF'), 1, "\xEF\xBF\xBD");
  EXPECT_EQ(trace.With("i", "name", shown).size(), 1u);
}

TEST_F(Timeline, HasOnlyWhatBeginsAndEndsMeanwhile) {
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  EXPECT_EQ(Trace([] {}).Named("aclrtSynchronizeDevice").size(), 0u);
  EXPECT_EQ(Trace([] { EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice())); })
                .Named("aclrtSynchronizeDevice")
                .size(),
            1u);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  // A span of one timeline that ends in the next is in neither.
  const ReadTrace empty = Trace([&] {
    int64_t begin_ns = StartRecording();
    {
      const Span outer(Kind::kCall, "aclOuter");
      (void)StopRecording(begin_ns);
      begin_ns = StartRecording();
      const Span inner(Kind::kCall, "aclInner");
    }
    (void)StopRecording(begin_ns);
  });
  EXPECT_EQ(empty.Named("aclInner").size(), 1u);
}

TEST_F(Timeline, SeveralRecordersSeeTheirOwnTimes) {
  const int64_t first = StartRecording();
  { const Span span(Kind::kCall, "aclOne"); }
  const int64_t second = StartRecording();
  { const Span span(Kind::kCall, "aclTwo"); }
  const auto count = [](const Recorded& recorded) {
    int found = 0;
    for (const auto& chunk : recorded.chunks) {
      for (uint32_t n = 0; n < chunk->used(); ++n) {
        found += (*chunk)[n].begin_ns >= recorded.begin_ns;
      }
    }
    return found;
  };
  EXPECT_EQ(count(StopRecording(second)), 1);
  EXPECT_TRUE(IsRecording());
  { const Span span(Kind::kCall, "aclThree"); }
  EXPECT_EQ(count(StopRecording(first)), 3);
  EXPECT_FALSE(IsRecording());
}

// Deeper than anybody's calls.
TEST_F(Timeline, CountsWhatIsTooDeep) {
  struct Nested {
    static void Spans(int depth) {
      const Span span(Kind::kCall, "aclDeep");
      if (depth > 1) Spans(depth - 1);
    }
  };
  const ReadTrace trace = Trace([] { Nested::Spans(20); });
  EXPECT_EQ(trace.Named("aclDeep").size() + trace.dropped(), 20u);
  EXPECT_GT(trace.dropped(), 0);
}

TEST_F(Timeline, IsBoundedAndGivesItsMemoryBack) {
  const int64_t begin_ns = StartRecording();
  for (size_t n = 0; n < kMaxEvents + 10; ++n) Add({.kind = Kind::kMark});
  std::weak_ptr<const Chunk> kept;
  {
    const Recorded recorded = StopRecording(begin_ns);
    EXPECT_GE(recorded.dropped, 10u);
    EXPECT_LT(recorded.dropped, 10u + Chunk::kEvents);
    size_t events = 0;
    for (const auto& chunk : recorded.chunks) events += chunk->used();
    EXPECT_EQ(events + recorded.dropped, kMaxEvents + 10);
    kept = recorded.chunks.front();
    EXPECT_FALSE(kept.expired());
  }
  EXPECT_TRUE(kept.expired());
  // The next one has room again.
  const ReadTrace trace = Trace([] { const Span span(Kind::kCall, "aclOne"); });
  EXPECT_EQ(trace.Named("aclOne").size(), 1u);
  EXPECT_EQ(trace.dropped(), 0);
}

// Readers may look while threads write, and threads may end.
TEST_F(Timeline, IsReadWhileItIsWritten) {
  std::atomic<bool> stop{false};
  const int64_t begin_ns = StartRecording();
  std::vector<std::thread> threads;
  for (int n = 0; n < 3; ++n) {
    threads.emplace_back([&] {
      while (!stop) const Span span(Kind::kCall, "aclBusy");
    });
  }
  while (Snapshot(begin_ns).chunks.size() < 3) std::this_thread::yield();
  for (int n = 0; n < 20; ++n) {
    const Recorded recorded = Snapshot(begin_ns);
    for (const auto& chunk : recorded.chunks) {
      for (uint32_t at = 0; at < chunk->used(); ++at) {
        EXPECT_LE((*chunk)[at].begin_ns, (*chunk)[at].end_ns);
      }
    }
    // And start anew under the threads' hands.
    (void)StopRecording(StartRecording());
  }
  const Recorded recorded = StopRecording(begin_ns);
  EXPECT_FALSE(recorded.chunks.empty());
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace flashacl::acl::profile
