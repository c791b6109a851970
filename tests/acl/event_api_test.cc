// SPDX-License-Identifier: Apache-2.0
// The event functions of the C API: every code, both numberings of "complete",
// times.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/latch.h"
#include "acl/stream.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class EventApi : public ::flashacl::testing::RuntimeTest {
 protected:
  // Blocks `stream` until the gate opens.
  void Block(aclrtStream stream) {
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        stream, [](void* at) { static_cast<Latch*>(at)->Wait(std::nullopt); },
        &gate_)));
  }
  aclrtEvent Create() {
    aclrtEvent event = nullptr;
    EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
    return event;
  }
  aclrtEventRecordedStatus Status(aclrtEvent event) {
    aclrtEventRecordedStatus status{};
    aclrtEventStatus old{};
    EXPECT_TRUE(Succeeds(aclrtQueryEventStatus(event, &status)));
    EXPECT_TRUE(Succeeds(aclrtQueryEvent(event, &old)));
    EXPECT_EQ(old == ACL_EVENT_STATUS_COMPLETE,
              status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    return status;
  }

  Latch gate_;
};

// Every function that takes an event.
std::vector<std::function<aclError()>> CallsWith(aclrtEvent event) {
  static aclrtEventRecordedStatus recorded{};
  static aclrtEventStatus status{};
  static aclrtEventWaitStatus wait{};
  static float ms = 0;
  static uint64_t us = 0;
  static uint32_t id = 0;
  return {
      [=] { return aclrtRecordEvent(event, nullptr); },
      [=] { return aclrtRecordEventWithFlag(event, nullptr, 0); },
      [=] { return aclrtResetEvent(event, nullptr); },
      [=] { return aclrtStreamWaitEvent(nullptr, event); },
      [=] { return aclrtStreamWaitEventWithTimeout(nullptr, event, 1); },
      [=] { return aclrtStreamWaitEventWithFlag(nullptr, event, 1, 0); },
      [=] { return aclrtQueryEventStatus(event, &recorded); },
      [=] { return aclrtQueryEvent(event, &status); },
      [=] { return aclrtQueryEventWaitStatus(event, &wait); },
      [=] { return aclrtSynchronizeEvent(event); },
      [=] { return aclrtSynchronizeEventWithTimeout(event, 1); },
      [=] { return aclrtEventElapsedTime(&ms, event, event); },
      [=] { return aclrtEventGetTimestamp(event, &us); },
      [=] { return aclrtGetEventId(event, &id); },
      [=] { return aclrtDestroyEvent(event); },
  };
}

TEST_F(EventApi, NullForeignAndStaleEventsAreRefused) {
  int local = 0;
  for (const auto& call : CallsWith(nullptr)) {
    EXPECT_TRUE(FailsWith(100000, call(), "NULL"));
  }
  for (const auto& call : CallsWith(&local)) {
    EXPECT_TRUE(FailsWith(107000, call(), "not destroyed"));
  }
  aclrtEvent event = Create();
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  for (const auto& call : CallsWith(event)) {
    EXPECT_TRUE(FailsWith(107000, call(), "not destroyed"));
  }
}

TEST_F(EventApi, NullOutputsAreRefused) {
  aclrtEvent event = Create();
  EXPECT_TRUE(FailsWith(100000, aclrtCreateEvent(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtCreateEventWithFlag(nullptr, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtCreateEventExWithFlag(nullptr, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtQueryEventStatus(event, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtQueryEvent(event, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtQueryEventWaitStatus(event, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtEventElapsedTime(nullptr, event, event)));
  EXPECT_TRUE(FailsWith(100000, aclrtEventGetTimestamp(event, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetEventId(event, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetEventAvailNum(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

TEST_F(EventApi, FlagsAreChecked) {
  aclrtEvent event = nullptr;
  for (const uint32_t flag :
       {0x0U, 0x11U, 0x21U, 0x30U, 0x41U, 0x80U, 0x80000000U}) {
    EXPECT_TRUE(FailsWith(107000, aclrtCreateEventWithFlag(&event, flag)));
    EXPECT_TRUE(FailsWith(107000, aclrtCreateEventExWithFlag(&event, flag)));
  }
  EXPECT_TRUE(
      FailsWith(107000, aclrtCreateEventWithFlag(&event, ACL_EVENT_IPC)));
  for (const uint32_t flag : {ACL_EVENT_EXTERNAL, ACL_EVENT_DEVICE_USE_ONLY}) {
    EXPECT_TRUE(FailsWith(107000, aclrtCreateEventExWithFlag(&event, flag)));
  }
  EXPECT_EQ(event, nullptr);
  for (uint32_t flags = 1; flags < 16; ++flags) {
    EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&event, flags)));
    EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
    EXPECT_TRUE(Succeeds(aclrtCreateEventWithFlag(&event, flags)));
    EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  }
  EXPECT_TRUE(
      Succeeds(aclrtCreateEventWithFlag(&event, ACL_EVENT_DEVICE_USE_ONLY)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  event = Create();
  EXPECT_TRUE(FailsWith(107000, aclrtRecordEventWithFlag(event, nullptr, 2)));
  EXPECT_TRUE(FailsWith(107029, aclrtRecordEventWithFlag(event, nullptr, 1)));
  EXPECT_TRUE(Succeeds(aclrtRecordEventWithFlag(event, nullptr, 0)));
  EXPECT_TRUE(
      FailsWith(107029, aclrtStreamWaitEventWithFlag(nullptr, event, 0, 1)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtStreamWaitEventWithFlag(nullptr, event, 0, 9)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEventWithFlag(nullptr, event, 0, 0)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtStreamWaitEventWithTimeout(nullptr, event, -1)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeEventWithTimeout(event, -2)));
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeEventWithTimeout(event, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEventWithTimeout(event, -1)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

TEST_F(EventApi, CreatingNeedsAContextAndDestroyingDoesNot) {
  aclrtEvent event = Create();
  std::thread([event] {
    aclrtEvent other = nullptr;
    uint32_t count = 0;
    EXPECT_TRUE(FailsWith(107002, aclrtCreateEvent(&other)));
    EXPECT_TRUE(FailsWith(107002, aclrtCreateEventWithFlag(&other, 1)));
    EXPECT_TRUE(FailsWith(107002, aclrtCreateEventExWithFlag(&other, 1)));
    EXPECT_TRUE(FailsWith(107002, aclrtGetEventAvailNum(&count)));
    EXPECT_TRUE(FailsWith(107002, aclrtRecordEvent(event, nullptr)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
    EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  }).join();
}

TEST_F(EventApi, StatusOfEventsNeverRecorded) {
  aclrtEvent plain = Create(), flag = nullptr, ex = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC)));
  EXPECT_TRUE(Succeeds(aclrtCreateEventExWithFlag(&ex, ACL_EVENT_SYNC)));
  EXPECT_EQ(Status(plain), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  EXPECT_EQ(Status(flag), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  EXPECT_EQ(Status(ex), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  aclrtEventWaitStatus wait = ACL_EVENT_WAIT_STATUS_RESERVED;
  EXPECT_TRUE(Succeeds(aclrtQueryEventWaitStatus(plain, &wait)));
  EXPECT_EQ(wait, ACL_EVENT_WAIT_STATUS_COMPLETE);
  EXPECT_TRUE(FailsWith(207000, aclrtQueryEventWaitStatus(ex, &wait)));
  for (aclrtEvent event : {plain, flag, ex}) {
    EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeEventWithTimeout(event, 1)));
    EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  }
}

TEST_F(EventApi, StatusFollowsTheStream) {
  ScopedStream stream;
  aclrtEvent event = Create();
  Block(stream);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  EXPECT_EQ(Status(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  EXPECT_TRUE(FailsWith(507047, aclrtSynchronizeEventWithTimeout(event, 5)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(nullptr, event)));
  aclrtEventWaitStatus wait{};
  EXPECT_TRUE(Succeeds(aclrtQueryEventWaitStatus(event, &wait)));
  EXPECT_EQ(wait, ACL_EVENT_WAIT_STATUS_NOT_READY);
  gate_.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
  EXPECT_EQ(Status(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtQueryEventWaitStatus(event, &wait)));
  EXPECT_EQ(wait, ACL_EVENT_WAIT_STATUS_COMPLETE);
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

TEST_F(EventApi, MayBeDestroyedWhilePending) {
  ScopedStream first, second;
  aclrtEvent event = Create();
  Block(first);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, first)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(second, event)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(second, 5)));
  gate_.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
}

TEST_F(EventApi, ElapsedTime) {
  aclrtEvent start = Create(), end = Create(), timeless = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateEventWithFlag(&timeless, ACL_EVENT_SYNC)));
  float ms = -1;
  uint64_t us = 0;
  EXPECT_TRUE(FailsWith(507000, aclrtEventElapsedTime(&ms, start, end)));
  EXPECT_TRUE(FailsWith(507000, aclrtEventGetTimestamp(start, &us)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(start, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(start)));
  EXPECT_TRUE(FailsWith(507000, aclrtEventElapsedTime(&ms, start, end)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      nullptr,
      [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); },
      nullptr)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(end, nullptr)));
  EXPECT_TRUE(FailsWith(107006, aclrtEventElapsedTime(&ms, start, end)));
  EXPECT_TRUE(FailsWith(107006, aclrtEventGetTimestamp(end, &us)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(timeless, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_TRUE(FailsWith(107006, aclrtEventElapsedTime(&ms, start, timeless)));
  EXPECT_EQ(ms, -1);
  EXPECT_TRUE(Succeeds(aclrtEventElapsedTime(&ms, start, end)));
  EXPECT_GE(ms, 20.0f);
  EXPECT_LT(ms, 20000.0f);
  float back = 0;
  EXPECT_TRUE(Succeeds(aclrtEventElapsedTime(&back, end, start)));
  EXPECT_EQ(back, -ms);
  uint64_t first = 0, second = 0;
  EXPECT_TRUE(Succeeds(aclrtEventGetTimestamp(start, &first)));
  EXPECT_TRUE(Succeeds(aclrtEventGetTimestamp(end, &second)));
  EXPECT_NEAR(static_cast<double>(second - first), 1000.0 * ms, 2.0);
  for (aclrtEvent event : {start, end, timeless}) {
    EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  }
}

TEST_F(EventApi, ADeviceHas65536Events) {
  uint32_t available = 0;
  EXPECT_TRUE(Succeeds(aclrtGetEventAvailNum(&available)));
  EXPECT_EQ(available, 65536u);
  std::vector<aclrtEvent> events(available);
  for (aclrtEvent& event : events) {
    ASSERT_EQ(aclrtCreateEvent(&event), ACL_SUCCESS);
  }
  aclrtEvent more = nullptr;
  EXPECT_TRUE(FailsWith(207007, aclrtCreateEvent(&more)));
  uint32_t a = 0, b = 0;
  EXPECT_TRUE(Succeeds(aclrtGetEventId(events[0], &a)));
  EXPECT_TRUE(Succeeds(aclrtGetEventId(events[1], &b)));
  EXPECT_NE(a, b);
  for (aclrtEvent event : events) {
    ASSERT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
  }
  EXPECT_TRUE(Succeeds(aclrtGetEventAvailNum(&available)));
  EXPECT_EQ(available, 65536u);
}

TEST_F(EventApi, AnExternalEventIsAFlag) {
  aclrtEvent event = nullptr;
  EXPECT_TRUE(FailsWith(
      107000, aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL | 1U)));
  ASSERT_TRUE(Succeeds(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL)));
  const auto is_set = [&] {
    auto status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    EXPECT_TRUE(Succeeds(aclrtQueryEventStatus(event, &status)));
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
  };
  ScopedStream first, second;
  EXPECT_FALSE(is_set());
  // A wait before any record waits for one.
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(first, event)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(first, 5)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, second)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(first)));
  EXPECT_TRUE(is_set());
  // A record is remembered, once.
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, second)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(second)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(first, event)));
  EXPECT_TRUE(Succeeds(aclrtResetEvent(event, first)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(first)));
  EXPECT_FALSE(is_set());
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEventWithTimeout(first, event, 1)));
  EXPECT_TRUE(FailsWith(107019, aclrtSynchronizeStream(first), "in vain"));
  EXPECT_TRUE(FailsWith(207000, aclrtSynchronizeEvent(event), "external"));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}

// A captured stream that records and waits for the event of the world outside.
TEST_F(EventApi, AGraphActsOnEventsOutsideOfIt) {
  ScopedStream stream, other;
  aclrtEvent before = Create();
  aclrtEvent after = Create();
  ASSERT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEventWithFlag(stream, before, 0, 1)));
  EXPECT_TRUE(Succeeds(aclrtRecordEventWithFlag(after, stream, 1)));
  aclmdlRI graph = nullptr;
  ASSERT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(after)));  // never recorded
  acl::Latch gate;
  EXPECT_TRUE(Succeeds(acl::Enqueue(
      other,
      [&] {
        acl::ThisStream().WaitInTask(gate, std::nullopt);
        return 0;
      },
      "test")));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(before, other)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  auto status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  EXPECT_TRUE(Succeeds(aclrtQueryEventStatus(after, &status)));
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(before)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(after)));
}

// What a replay has not come to yet, nobody sees; and it waits for a first
// record where streams do.
TEST_F(EventApi, AGraphRecordsWhenItComesThere) {
  ScopedStream stream, other;
  aclrtEvent first = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateEventWithFlag(&first, ACL_EVENT_SYNC)));
  aclrtEvent after = Create();
  ASSERT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEventWithFlag(stream, first, 0, 1)));
  EXPECT_TRUE(Succeeds(aclrtRecordEventWithFlag(after, stream, 1)));
  aclmdlRI graph = nullptr;
  ASSERT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(after, other)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(after)));
  uint64_t outside = 0;
  EXPECT_TRUE(Succeeds(aclrtEventGetTimestamp(after, &outside)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, after)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
  uint64_t us = 0;
  EXPECT_TRUE(Succeeds(aclrtEventGetTimestamp(after, &us)));
  EXPECT_EQ(us, outside);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(first, other)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtEventGetTimestamp(after, &us)));
  EXPECT_GT(us, outside);
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(first)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(after)));
}

// The flag changes nothing for events that are external themselves, and who
// waits already is let go.
TEST_F(EventApi, AGraphActsOnExternalAndAwaitedEvents) {
  ScopedStream stream, other;
  aclrtEvent external = nullptr;
  aclrtEvent awaited = nullptr;
  ASSERT_TRUE(
      Succeeds(aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL)));
  ASSERT_TRUE(Succeeds(aclrtCreateEventWithFlag(&awaited, ACL_EVENT_SYNC)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, external)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, awaited)));
  ASSERT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(Succeeds(aclrtRecordEventWithFlag(external, stream, 1)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEventWithFlag(stream, external, 0, 1)));
  EXPECT_TRUE(Succeeds(aclrtRecordEventWithFlag(awaited, stream, 1)));
  aclmdlRI graph = nullptr;
  ASSERT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(other, 5)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStreamWithTimeout(other, 10000)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(external)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(awaited)));
}

}  // namespace
}  // namespace flashacl::acl
