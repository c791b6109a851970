// SPDX-License-Identifier: Apache-2.0
// A process may fork whatever the runtime is doing. The child is told what to
// do where it uses what is its parent's, may do work of its own, and waits for
// nobody; the parent goes on as if nothing had happened.
#include "tests/testing/fork.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "tests/acl/forked_child.h"
#include "tests/acl/profile/trace_reader.h"
#include "tests/testing/runtime.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::testing {
namespace {

void Sleep(int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

FORKS(WhileAnOperatorRuns) {
  Start();
  ScopedStream stream;
  TinyCall call(4096, 64, 64);
  call.SetValue(5.0f);
  void* workspace = nullptr;
  for (int n = 0; n < 50; ++n) {
    ASSERT_TRUE(Succeeds(call.Prepare()));
    if (n == 0) {
      ASSERT_TRUE(Succeeds(aclrtMalloc(&workspace, call.workspace_size + 64,
                                       ACL_MEM_MALLOC_HUGE_FIRST)));
    }
    ASSERT_TRUE(Succeeds(
        acl::Launch(workspace, call.workspace_size, call.executor, stream)));
  }
  ASSERT_TRUE(Succeeds(call.Prepare()));
  for (int n = 0; n < 3; ++n) {
    InChild([&] {
      EXPECT_TRUE(FailsWith(107002, aclrtSynchronizeDevice(), "SetDevice"));
      ExpectStreamRefused(stream);
      // Its executor and its tensors are the parent's.
      EXPECT_TRUE(FailsWith(
          561000,
          acl::Launch(workspace, call.workspace_size, call.executor, stream),
          "in the child"));
      EXPECT_TRUE(FailsWith(161002, call.Prepare(), "in the child"));
    });
  }
  EXPECT_TRUE(Succeeds(
      acl::Launch(workspace, call.workspace_size, call.executor, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(call.out_data[0], 5.0f / 64);  // the other values are 0
  EXPECT_TRUE(Succeeds(aclrtFree(workspace)));
}

FORKS(WhileStreamsWait) {
  Start();
  ScopedStream streams[4], releases;
  aclrtEvent event = nullptr;
  aclrtEvent external = nullptr;
  aclrtNotify notify = nullptr;
  void* word = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC)));
  EXPECT_TRUE(
      Succeeds(aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL)));
  EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify, 0)));
  EXPECT_TRUE(Succeeds(aclrtMalloc(&word, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(Succeeds(aclrtMemset(word, 64, 0, 64)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(streams[0], event)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(streams[1], external)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify, streams[2], 0)));
  EXPECT_TRUE(
      Succeeds(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, streams[3])));
  Sleep(20);
  InChild([&] {
    for (aclrtStream stream : streams) ExpectStreamRefused(stream);
    aclrtEventRecordedStatus status;
    for (aclrtEvent one : {event, external}) {
      ExpectRefused(aclrtSynchronizeEvent(one));
      ExpectRefused(aclrtQueryEventStatus(one, &status));
      ExpectRefused(aclrtRecordEvent(one, releases));
      ExpectRefused(aclrtStreamWaitEvent(releases, one));
      ExpectRefused(aclrtDestroyEvent(one));
    }
    ExpectRefused(aclrtRecordNotify(notify, releases));
    ExpectRefused(aclrtWaitAndResetNotify(notify, releases, 0));
    ExpectRefused(aclrtDestroyNotify(notify));
    // Memory is a copy, which the child uses and frees.
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    {
      ScopedStream own;
      EXPECT_TRUE(Succeeds(aclrtValueWrite(word, 1, 0, own)));
      EXPECT_TRUE(
          Succeeds(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, own)));
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(own)));
    }
    EXPECT_TRUE(Succeeds(aclrtFree(word)));
  });
  for (aclrtStream stream : streams) {
    EXPECT_TRUE(
        FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  }
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, releases)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(external, releases)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify, releases)));
  EXPECT_TRUE(Succeeds(aclrtValueWrite(word, 1, 0, releases)));
  for (aclrtStream stream : streams) {
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
}

// Captures one host function after what `before` puts there.
aclmdlRI Capture(aclrtStream stream, const std::function<void()>& before) {
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(
      Succeeds(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)));
  before();
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  return graph;
}

FORKS(DuringACapture) {
  Start();
  ScopedStream stream, joined;
  aclrtEvent fork = nullptr;
  aclrtEvent join = nullptr;
  static std::atomic<int> runs{0};
  const auto count = [](void*) { ++runs; };
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC)));
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC)));
  const aclmdlRI graph = Capture(stream, [&] {
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(fork, stream)));
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(joined, fork)));
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(joined, count, nullptr)));
    aclmdlRI captured = nullptr;
    EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &captured)));
    InChild([&] {
      auto status = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
      EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, &status, nullptr)));
      EXPECT_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
      ExpectStreamRefused(stream);
      ExpectStreamRefused(joined);
      ExpectRefused(aclmdlRIExecuteAsync(captured, nullptr));
      ExpectRefused(aclmdlRIDestroy(captured));
      ExpectRefused(aclrtRecordEvent(fork, nullptr));
    });
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(join, joined)));
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, join)));
  });
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
}

FORKS(WhileAReplayRuns) {
  Start();
  ScopedStream stream, joined;
  aclrtEvent fork = nullptr;
  aclrtEvent join = nullptr;
  aclrtEvent external = nullptr;
  static std::atomic<int> runs{0};
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC)));
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC)));
  EXPECT_TRUE(
      Succeeds(aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL)));
  const aclmdlRI graph = Capture(stream, [&] {
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(fork, stream)));
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(joined, fork)));
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(joined, external)));
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(join, joined)));
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, join)));
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        stream, [](void*) { ++runs; }, nullptr)));
  });
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(FailsWith(507046, aclmdlRIExecute(graph, 10)));  // queued
  InChild([&] {
    ExpectStreamRefused(stream);
    ExpectRefused(aclmdlRIExecuteAsync(graph, nullptr));
    ExpectRefused(aclmdlRIExecute(graph, -1));
    ExpectRefused(aclmdlRIAbort(graph));
    ExpectRefused(aclmdlRIDestroy(graph));
  });
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(external, joined)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  EXPECT_EQ(runs, 2);
}

FORKS(WhileAProfileIsOn) {
  Start();
  const TemporaryFolder folder;
  const std::string path = folder.path();
  uint32_t device = 0;
  aclprofConfig* const config =
      aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, nullptr, 0);
  EXPECT_TRUE(Succeeds(aclprofInit(path.c_str(), path.size())));
  EXPECT_TRUE(Succeeds(aclprofStart(config)));
  void* const stamp = aclprofCreateStamp();
  EXPECT_TRUE(Succeeds(aclprofSetStampTraceMessage(stamp, "open", 4)));
  EXPECT_TRUE(Succeeds(aclprofPush(stamp)));
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream, [](void*) { Sleep(200); }, nullptr)));
  InChild([&] {
    EXPECT_TRUE(FailsWith(100043, aclprofStart(config), "aclprofInit"));
    EXPECT_TRUE(FailsWith(100043, aclprofFinalize(), "aclprofInit"));
    EXPECT_TRUE(FailsWith(100000, aclprofDestroyConfig(config), "the child"));
    EXPECT_TRUE(FailsWith(100000, aclprofMark(stamp), "in the child"));
    (void)aclprofPop();
    Message();
  });
  EXPECT_TRUE(Succeeds(aclprofPop()));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclprofStop(config)));
  EXPECT_EQ(folder.Files().size(), 1u);
  aclprofDestroyStamp(stamp);
  EXPECT_TRUE(Succeeds(aclprofDestroyConfig(config)));
  EXPECT_TRUE(Succeeds(aclprofFinalize()));
}

FORKS(WithSharedObjects) {
  Start();
  constexpr size_t kBytes = size_t{1} << 20;
  char memory_key[65] = "";
  char notify_key[65] = "";
  void* block = nullptr;
  aclrtEvent event = nullptr;
  aclrtNotify notify = nullptr;
  aclrtIpcEventHandle handle{};
  EXPECT_TRUE(Succeeds(aclrtMalloc(&block, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(
      Succeeds(aclrtIpcMemGetExportKey(block, kBytes, memory_key, 65, 1)));
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC)));
  EXPECT_TRUE(Succeeds(aclrtIpcGetEventHandle(event, &handle)));
  EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify, 0)));
  EXPECT_TRUE(Succeeds(aclrtNotifyGetExportKey(notify, notify_key, 65, 2)));
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  InChild([&] {
    ExpectRefused(aclrtIpcGetEventHandle(event, &handle));
    ExpectRefused(aclrtDestroyEvent(event));
    int32_t pid = getpid();
    ExpectRefused(aclrtNotifySetImportPid(notify, &pid, 1));
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    // By keys, as in any other process.
    void* at = nullptr;
    aclrtEvent own_event = nullptr;
    aclrtNotify own_notify = nullptr;
    EXPECT_TRUE(Succeeds(aclrtIpcMemImportByKey(&at, memory_key, 0)));
    EXPECT_TRUE(Succeeds(aclrtMemset(at, kBytes, 'c', 1)));
    EXPECT_TRUE(Succeeds(aclrtIpcMemClose(memory_key)));
    EXPECT_TRUE(Succeeds(aclrtIpcOpenEventHandle(handle, &own_event)));
    EXPECT_TRUE(Succeeds(aclrtNotifyImportByKey(&own_notify, notify_key, 0)));
    {
      ScopedStream own;
      EXPECT_TRUE(Succeeds(aclrtRecordNotify(own_notify, own)));
      EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(own, own_event)));
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(own)));
    }
    EXPECT_TRUE(Succeeds(aclrtDestroyEvent(own_event)));
    EXPECT_TRUE(Succeeds(aclrtDestroyNotify(own_notify)));
  });
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(*static_cast<char*>(block), 'c');
  // The names are still the parent's.
  aclrtEvent again = nullptr;
  EXPECT_TRUE(Succeeds(aclrtIpcOpenEventHandle(handle, &again)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(again)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify)));
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(memory_key)));
  EXPECT_TRUE(Succeeds(aclrtFree(block)));
}

FORKS(WhileAThreadProcessesReports) {
  Start();
  ScopedStream stream;
  static std::atomic<int> calls{0};
  std::atomic<bool> over{false};
  std::thread thread([&] {
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    while (!over) (void)aclrtProcessReport(50);
    Message();
  });
  const auto id = static_cast<uint64_t>(thread.native_handle());
  const auto count = [](void*) { ++calls; };
  EXPECT_TRUE(Succeeds(aclrtSubscribeReport(id, stream)));
  Sleep(20);
  InChild([&] {
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    ExpectRefused(aclrtUnSubscribeReport(id, stream));
    EXPECT_TRUE(FailsWith(107012, aclrtProcessReport(10)));
    ScopedStream own;
    const auto self = static_cast<uint64_t>(pthread_self());
    EXPECT_TRUE(Succeeds(aclrtSubscribeReport(self, own)));
    EXPECT_TRUE(Succeeds(aclrtLaunchCallback([](void*) { ++calls; }, nullptr,
                                             ACL_CALLBACK_BLOCK, own)));
    EXPECT_TRUE(Succeeds(aclrtProcessReport(10000)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(own)));
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(self, own)));
  });
  EXPECT_TRUE(Succeeds(
      aclrtLaunchCallback(count, nullptr, ACL_CALLBACK_BLOCK, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(id, stream)));
  over = true;
  thread.join();
}

// Where the allocator does not survive a fork while another thread allocates,
// these threads, which never rest, say nothing of this library.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_IF_FORKS_ARE_UNSAFE() GTEST_SKIP() << "a sanitizer's allocator"
#else
#define SKIP_IF_FORKS_ARE_UNSAFE() static_cast<void>(0)
#endif

FORKS(WhileAnotherThreadInitializesAndFinalizes) {
  SKIP_IF_FORKS_ARE_UNSAFE();
  std::atomic<bool> over{false};
  std::thread thread([&] {
    while (!over) {
      EXPECT_TRUE(Succeeds(aclInit(nullptr)));
      EXPECT_TRUE(Succeeds(aclFinalize()));
    }
  });
  for (int n = 0; n < 30; ++n) InChild([] {});
  over = true;
  thread.join();
  ExpectOwnWork();
}

// The child's only thread is one of its parent's streams.
FORKS(InAHostFunction) {
  Start();
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream, [](void*) { InChild([] {}); }, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

// One that returns ends like a program whose last thread ends.
FORKS(InAHostFunctionThatReturns) {
  Start();
  ScopedStream stream;
  static pid_t child = 0;
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream,
      [](void*) {
        child = Fork();
        if (child == 0) alarm(kPatience);
      },
      nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  // Its code may tell of leaks: what its parent's other threads know.
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
}

// Threads that create, use and destroy whatever there is, while others fork.
FORKS(WhileThreadsDoAll) {
  SKIP_IF_FORKS_ARE_UNSAFE();
  Start();
  ExpectOwnWork();
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int n = 0; n < 3; ++n) {
    threads.emplace_back([&over] {
      EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
      while (!over) {
        ScopedStream one, other;
        ExpectOperatorRuns(one);
        ExpectStreamsMeet(one, other);
        aclrtSetDevice(-1);
        Message();
      }
      EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
    });
  }
  for (int n = 0; n < 40; ++n) InChild([] {});
  over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace flashacl::testing
