// SPDX-License-Identifier: Apache-2.0
// Events between processes. src/acl/share/shared_event.cc is shown here, too.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/event.h"
#include "acl/latch.h"
#include "acl/share/shared_event.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"
#include "tests/testing/shared_files.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::SharedFiles;
using ::flashacl::testing::Succeeds;

constexpr const char* kVariable = "FLASHACL_TEST_EVENT";

aclrtEvent Create() {
  aclrtEvent event = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC)));
  return event;
}

aclrtIpcEventHandle HandleOf(aclrtEvent event) {
  aclrtIpcEventHandle handle{};
  EXPECT_TRUE(Succeeds(aclrtIpcGetEventHandle(event, &handle)));
  return handle;
}

aclrtEvent Open(const aclrtIpcEventHandle& handle) {
  aclrtEvent event = nullptr;
  EXPECT_TRUE(Succeeds(aclrtIpcOpenEventHandle(handle, &event)));
  return event;
}

bool IsComplete(aclrtEvent event) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  EXPECT_TRUE(Succeeds(aclrtQueryEventStatus(event, &status)));
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

// Holds a stream until it is opened.
struct Gate {
  explicit Gate(aclrtStream stream) {
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        stream,
        [](void* self) { static_cast<Gate*>(self)->latch.Wait(std::nullopt); },
        this)));
  }
  Latch latch;
};

using EventHandle = RuntimeTest;

TEST_F(EventHandle, EachWrongArgumentIsToldApart) {
  aclrtEvent event = nullptr;
  EXPECT_TRUE(
      FailsWith(107000, aclrtCreateEventWithFlag(&event, ACL_EVENT_IPC)));
  EXPECT_TRUE(FailsWith(107000, aclrtCreateEventExWithFlag(
                                    &event, ACL_EVENT_IPC | ACL_EVENT_SYNC)));
  aclrtIpcEventHandle handle{};
  EXPECT_TRUE(FailsWith(100000, aclrtIpcGetEventHandle(nullptr, &handle)));
  aclrtEvent plain = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC)));
  EXPECT_TRUE(FailsWith(100000, aclrtIpcGetEventHandle(plain, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcGetEventHandle(plain, &handle),
                        "ACL_EVENT_IPC"));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(plain)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcGetEventHandle(plain, &handle)));
  EXPECT_TRUE(FailsWith(100000, aclrtIpcOpenEventHandle(handle, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcOpenEventHandle(handle, &event)));
  const auto before = SharedFiles();
  aclrtEvent shared = Create();
  handle = HandleOf(shared);
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(shared)));
  EXPECT_EQ(SharedFiles(), before);
  EXPECT_TRUE(FailsWith(507022, aclrtIpcOpenEventHandle(handle, &event)));
  EXPECT_EQ(event, nullptr);
}

TEST_F(EventHandle, HasNoTimesAndIsInNoGraph) {
  aclrtEvent event = Create();
  float ms = 0;
  uint64_t us = 0;
  EXPECT_TRUE(FailsWith(107006, aclrtEventElapsedTime(&ms, event, event)));
  EXPECT_TRUE(FailsWith(107006, aclrtEventGetTimestamp(event, &us)));
  ScopedStream stream;
  ASSERT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(FailsWith(207000, aclrtRecordEvent(event, stream), "graph"));
  EXPECT_TRUE(FailsWith(207000, aclrtStreamWaitEvent(stream, event)));
  EXPECT_TRUE(FailsWith(207000, aclrtResetEvent(event, stream)));
  EXPECT_TRUE(FailsWith(207000, aclrtRecordEventWithFlag(event, stream, 1)));
  EXPECT_TRUE(
      FailsWith(207000, aclrtStreamWaitEventWithFlag(stream, event, 0, 1)));
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// The same event twice in one process, as in two.
TEST_F(EventHandle, WaitsForTheLastRecordAtTheTimeOfTheCall) {
  ScopedStream one, other;
  aclrtEvent event = Create();
  aclrtEvent opened = Open(HandleOf(event));
  EXPECT_TRUE(IsComplete(opened));  // never recorded
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(opened)));
  Gate gate(one);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, one)));
  EXPECT_FALSE(IsComplete(opened));
  EXPECT_TRUE(FailsWith(507047, aclrtSynchronizeEventWithTimeout(opened, 10)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, opened)));
  // Another record, which comes first, ends no wait for the one before.
  ScopedStream third;
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(opened, third)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
  EXPECT_TRUE(IsComplete(event));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(other, 10)));
  gate.latch.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  // What is open goes on.
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(opened, one)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(opened)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(opened)));
}

// The thread that records is the one that lets the stream go on.
TEST_F(EventHandle, ARecordNeverWaits) {
  ScopedStream stream, other;
  aclrtEvent event = Create();
  Gate gate(stream);
  for (int n = 0; n < 1000; ++n) {
    ASSERT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
    ASSERT_TRUE(Succeeds(aclrtStreamWaitEvent(other, event)));
  }
  EXPECT_FALSE(IsComplete(event));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(other, 10)));
  gate.latch.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// Later ones that come first end no wait for those before.
TEST_F(EventHandle, ManyStreamsHaveRecordsUnderWay) {
  constexpr size_t kMost = SharedEventWords::kPlaces;
  std::vector<ScopedStream> streams(kMost + 1);
  aclrtEvent event = Create();
  std::deque<Gate> gates;
  for (size_t n = 0; n < kMost; ++n) {
    gates.emplace_back(streams[n]);
    ASSERT_TRUE(Succeeds(aclrtRecordEvent(event, streams[n])));
  }
  aclrtStream last = streams[kMost];
  EXPECT_TRUE(
      FailsWith(207005, aclrtRecordEvent(event, last), "64 other streams"));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, streams[0])));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(last, event)));
  gates[1].latch.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(streams[1])));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, streams[1])));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(last, 10)));
  for (Gate& gate : gates) gate.latch.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(last)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, last)));
  for (const ScopedStream& stream : streams) {
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

TEST_F(EventHandle, AWaitEndsByTimeAndByAbort) {
  ScopedStream one, other;
  aclrtEvent event = Create();
  Gate gate(one);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, one)));
  auto start = Clock::now();
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEventWithTimeout(other, event, 1)));
  EXPECT_TRUE(FailsWith(107019, aclrtSynchronizeStream(other), "in vain"));
  EXPECT_GE(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, event)));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  start = Clock::now();
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(other)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  gate.latch.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(one)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// Records that are dropped count as done: nobody waits for what never comes.
TEST_F(EventHandle, ADroppedRecordHoldsNobody) {
  ScopedStream one, other;
  aclrtEvent event = Create();
  Gate gate(one);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, one)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, event)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(one)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
  gate.latch.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(one)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// What is shared ends with aclFinalize; the event itself does not.
TEST_F(EventHandle, AfterFinalizeSaysWhyItIsNotShared) {
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  aclrtEvent event = Create();
  const aclrtIpcEventHandle handle = HandleOf(event);
  EXPECT_TRUE(Succeeds(aclFinalize()));
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  aclrtIpcEventHandle again{};
  aclrtEvent opened = nullptr;
  EXPECT_TRUE(
      FailsWith(107000, aclrtIpcGetEventHandle(event, &again), "aclFinalize"));
  EXPECT_TRUE(FailsWith(507022, aclrtIpcOpenEventHandle(handle, &opened),
                        "aclFinalize"));
  {
    ScopedStream stream;
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
  }
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  event = Create();
  opened = Open(HandleOf(event));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(opened)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
}

aclrtEvent OpenInChild() {
  aclrtIpcEventHandle handle{};
  std::strncpy(handle.reserved, std::getenv(kVariable),
               sizeof handle.reserved - 1);
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  return Open(handle);
}

TEST_F(EventHandle, AnotherProgramWaitsAndRecords) {
  ScopedStream one, other;
  aclrtEvent event = Create();
  Gate gate(one);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, one)));
  std::thread child([&] {
    const auto result = RunChild("EventHandleChild.DISABLED_WaitsAndRecords",
                                 {{kVariable, HandleOf(event).reserved}});
    EXPECT_TRUE(result.ok()) << result.output;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  gate.latch.Open();
  child.join();
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, event)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// A child, which EventHandle.AnotherProgramWaitsAndRecords starts.
TEST(EventHandleChild, DISABLED_WaitsAndRecords) {
  aclrtEvent event = OpenInChild();
  {
    ScopedStream stream;
    EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    EXPECT_TRUE(IsComplete(event));
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// A record whose process is killed before: everyone is told, within a second
// and the time that looking takes.
TEST_F(EventHandle, WaitsForAKilledProcessEnd) {
  ScopedStream stream;
  aclrtEvent event = Create();
  std::atomic<bool> ended{false};
  Clock::time_point end;
  std::thread child([&] {
    const auto result = RunChild("EventHandleChild.DISABLED_IsKilled",
                                 {{kVariable, HandleOf(event).reserved}});
    end = Clock::now();
    EXPECT_EQ(result.signal, SIGKILL) << result.output;
    ended = true;
  });
  while (!ended && IsComplete(event)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(stream, event)));
  EXPECT_TRUE(FailsWith(507022, aclrtSynchronizeStream(stream), "ended"));
  child.join();
  EXPECT_LT(Clock::now() - end, std::chrono::seconds(1));
  EXPECT_TRUE(FailsWith(507022, aclrtSynchronizeEvent(event)));
  aclrtEventRecordedStatus status;
  EXPECT_TRUE(FailsWith(507022, aclrtQueryEventStatus(event, &status)));
  // The next record is as good as any.
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// A child, which EventHandle.WaitsForAKilledProcessEnd starts.
TEST(EventHandleChild, DISABLED_IsKilled) {
  aclrtEvent event = OpenInChild();
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  static Gate gate(stream);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(getpid(), SIGKILL);
}

}  // namespace
}  // namespace flashacl::acl
