// SPDX-License-Identifier: Apache-2.0
// Aborting a device's tasks, and what a device says of its errors.
#include "acl/device_fault.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/error.h"
#include "acl/stream.h"
#include "tests/acl/busy_task.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::BusyTask;
using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class DeviceFault : public ::flashacl::testing::RuntimeTest {
 protected:
  static void Ignore(void* /*user*/) {}

  void TearDown() override {
    ClearFaults(0);
    RuntimeTest::TearDown();
  }

  aclrtErrorType Error() {
    aclrtErrorInfo info{};
    info.tryRepair = 7;
    EXPECT_TRUE(Succeeds(aclrtGetErrorVerbose(0, &info)));
    EXPECT_EQ(info.tryRepair, 0);
    EXPECT_EQ(info.hasDetail, 0);
    return info.errorType;
  }
};

TEST_F(DeviceFault, AbortingEndsWorkAndThoseWhoWait) {
  ScopedStream stream;
  aclrtNotify notify = nullptr;
  aclrtEvent event = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify, 0)));
  EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
  // Who comes after the abort has nothing to wait for, as on a busy machine.
  aclError told = ACL_SUCCESS;
  for (int ms = 10; told == ACL_SUCCESS && ms < 20'000; ms *= 2) {
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify, stream, 0)));
    EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
    std::thread for_stream([&] {
      EXPECT_TRUE(FailsWith(107022, aclrtSynchronizeStream(stream)));
    });
    std::thread for_event([&] { told = aclrtSynchronizeEvent(event); });
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0)));
    for_stream.join();
    for_event.join();
  }
  EXPECT_EQ(told, 107022);
  EXPECT_TRUE(FailsWith(107022, aclrtLaunchHostFunc(stream, Ignore, nullptr),
                        "aclrtSetDevice"));
  EXPECT_TRUE(FailsWith(107022, aclrtRecordEvent(event, stream)));
  EXPECT_TRUE(FailsWith(107022, aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(FailsWith(107022, aclrtSynchronizeDevice()));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(stream, Ignore, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify)));
}

TEST_F(DeviceFault, ResettingAndRepairingEndIt) {
  EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 1000)));
  EXPECT_TRUE(Succeeds(aclrtResetDeviceForce(0)));
  EXPECT_FALSE(DeviceIsAborted(0));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 1000)));
  aclrtErrorInfo info{};
  info.tryRepair = 1;
  EXPECT_TRUE(Succeeds(aclrtRepairError(0, &info)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
}

TEST_F(DeviceFault, AKernelRunsToItsEnd) {
  ScopedStream stream;
  BusyTask busy(stream);
  EXPECT_TRUE(FailsWith(507046, aclrtDeviceTaskAbort(0, 5)));
  busy.End();
  EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0)));
}

// What another thread asks for in the middle comes too early.
TEST_F(DeviceFault, AnAbortUnderWayIsEndedByNobody) {
  ScopedStream stream;
  BusyTask busy(stream);
  std::thread aborts([] { EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0))); });
  while (!DeviceIsAborted(0)) std::this_thread::yield();
  aclrtErrorInfo info{};
  info.tryRepair = 1;
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(DeviceIsAborted(0));
  EXPECT_TRUE(Succeeds(aclrtRepairError(0, &info)));
  EXPECT_TRUE(FailsWith(107022, aclrtLaunchHostFunc(stream, Ignore, nullptr)));
  busy.End();
  aborts.join();
  EXPECT_TRUE(FailsWith(107022, aclrtLaunchHostFunc(stream, Ignore, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(stream, Ignore, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

// The program may recover in its callback.
TEST_F(DeviceFault, TheCallbackAfterAnAbortMayEndIt) {
  const auto recover = [](int32_t device, aclrtDeviceTaskAbortStage stage,
                          uint32_t, void*) -> int32_t {
    if (stage == ACL_RT_DEVICE_TASK_ABORT_POST) {
      EXPECT_TRUE(Succeeds(aclrtSetDevice(device)));
    }
    return 0;
  };
  EXPECT_TRUE(Succeeds(aclrtSetDeviceTaskAbortCallback("a", recover, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  EXPECT_TRUE(Succeeds(aclrtSetDeviceTaskAbortCallback("a", nullptr, nullptr)));
}

TEST_F(DeviceFault, ManyThreadsSubmitWhileWorkIsAborted) {
  ScopedStream stream;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const int code = aclrtLaunchHostFunc(stream, Ignore, nullptr);
        EXPECT_TRUE(code == 0 || code == 107022);
        (void)aclGetRecentErrMsg();
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0)));
    EXPECT_TRUE(Find<Stream>(stream)->Idle());
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

TEST_F(DeviceFault, CallsBackBeforeAndAfter) {
  struct Seen {
    std::string text;
  } seen;
  const auto note = [](int32_t device, aclrtDeviceTaskAbortStage stage,
                       uint32_t ms, void* at) -> int32_t {
    EXPECT_EQ(device, 0);
    EXPECT_EQ(ms, 9u);
    static_cast<Seen*>(at)->text +=
        stage == ACL_RT_DEVICE_TASK_ABORT_PRE ? "pre " : "post ";
    return 1;
  };
  EXPECT_TRUE(Succeeds(aclrtSetDeviceTaskAbortCallback("a", note, &seen)));
  EXPECT_TRUE(Succeeds(aclrtSetDeviceTaskAbortCallback("b", note, &seen)));
  EXPECT_TRUE(Succeeds(aclrtSetDeviceTaskAbortCallback("b", note, &seen)));
  EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 9)));
  EXPECT_EQ(seen.text, "pre pre post post ");
  EXPECT_TRUE(Succeeds(aclrtSetDeviceTaskAbortCallback("a", nullptr, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSetDeviceTaskAbortCallback("b", nullptr, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSetDeviceTaskAbortCallback("c", nullptr, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 9)));
  EXPECT_EQ(seen.text, "pre pre post post ");
  EXPECT_TRUE(
      FailsWith(100000, aclrtSetDeviceTaskAbortCallback("", note, &seen)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtSetDeviceTaskAbortCallback(nullptr, note, &seen)));
}

TEST_F(DeviceFault, AFailedTaskIsAnError) {
  ScopedStream stream;
  EXPECT_EQ(Error(), ACL_RT_NO_ERROR);
  EXPECT_TRUE(Succeeds(Find<Stream>(stream)->Push(
      [] { return Fail(507015, Title::kRuntime, "as asked"); }, "test",
      TaskKind::kDevice)));
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(stream)));
  EXPECT_EQ(Error(), ACL_RT_ERROR_OTHERS);
  aclrtErrorInfo info{};
  info.tryRepair = 1;
  EXPECT_TRUE(Succeeds(aclrtRepairError(0, &info)));
  EXPECT_EQ(Error(), ACL_RT_NO_ERROR);
}

TEST_F(DeviceFault, NoMemoryIsBroken) {
  aclrtMemUceInfo array[2] = {};
  size_t count = 7;
  EXPECT_TRUE(Succeeds(aclrtGetMemUceInfo(0, array, 2, &count)));
  EXPECT_EQ(count, 0u);
  EXPECT_TRUE(Succeeds(aclrtMemUceRepair(0, array, 2)));
}

TEST_F(DeviceFault, ArgumentsAreChecked) {
  aclrtErrorInfo info{};
  aclrtMemUceInfo array[21] = {};
  size_t count = 7;
  EXPECT_TRUE(FailsWith(107000, aclrtDeviceTaskAbort(0, 2160001), "timeout"));
  EXPECT_TRUE(FailsWith(107001, aclrtDeviceTaskAbort(1, 0)));
  EXPECT_FALSE(DeviceIsAborted(0));
  EXPECT_TRUE(FailsWith(100000, aclrtGetErrorVerbose(0, nullptr)));
  EXPECT_TRUE(FailsWith(107001, aclrtGetErrorVerbose(1, &info)));
  EXPECT_TRUE(FailsWith(100000, aclrtRepairError(0, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtRepairError(0, &info), "tryRepair"));
  info.tryRepair = 1;
  EXPECT_TRUE(FailsWith(107001, aclrtRepairError(1, &info)));
  info.errorType = ACL_RT_ERROR_AICORE;
  EXPECT_TRUE(FailsWith(107000, aclrtRepairError(0, &info), "errorType"));
  EXPECT_TRUE(FailsWith(100000, aclrtGetMemUceInfo(0, nullptr, 2, &count)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetMemUceInfo(0, array, 2, nullptr)));
  EXPECT_TRUE(FailsWith(107001, aclrtGetMemUceInfo(1, array, 2, &count)));
  EXPECT_TRUE(FailsWith(100000, aclrtMemUceRepair(0, nullptr, 2)));
  EXPECT_TRUE(FailsWith(100000, aclrtMemUceRepair(0, array, 21)));
  EXPECT_TRUE(FailsWith(107001, aclrtMemUceRepair(1, array, 2)));
  array[1].reserved[13] = 1;
  EXPECT_TRUE(FailsWith(100000, aclrtMemUceRepair(0, array, 2), "reserved"));
}

}  // namespace
}  // namespace flashacl::acl
