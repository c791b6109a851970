// SPDX-License-Identifier: Apache-2.0
// The notify functions: what they refuse, and what each mode means.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "acl/acl.h"
#include "acl/latch.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class NotifyApi : public ::flashacl::testing::RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(Succeeds(aclrtCreateNotify(&notify_, ACL_NOTIFY_DEFAULT)));
    ASSERT_TRUE(Succeeds(aclrtCntNotifyCreate(&count_, 0)));
  }
  void TearDown() override {
    EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify_)));
    EXPECT_TRUE(Succeeds(aclrtCntNotifyDestroy(count_)));
    RuntimeTest::TearDown();
  }

  bool IsIdle(aclrtStream stream) {
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    EXPECT_TRUE(Succeeds(aclrtStreamQuery(stream, &status)));
    return status == ACL_STREAM_STATUS_COMPLETE;
  }
  // Records on a stream, and waits until that is done.
  void Record(int mode, uint32_t value) {
    aclrtCntNotifyRecordInfo info = {
        static_cast<aclrtCntNotifyRecordMode>(mode), value};
    ASSERT_TRUE(Succeeds(aclrtCntNotifyRecord(count_, recorder_, &info)));
    ASSERT_TRUE(Succeeds(aclrtSynchronizeStream(recorder_)));
  }
  // Whether a wait of `mode` is satisfied now.
  bool Holds(int mode, uint32_t value, bool clear = false) {
    ScopedStream waiter;
    aclrtCntNotifyWaitInfo info = {
        static_cast<aclrtCntNotifyWaitMode>(mode), value, 0, clear, {}};
    EXPECT_TRUE(Succeeds(aclrtCntNotifyWaitWithTimeout(count_, waiter, &info)));
    const int code = aclrtSynchronizeStreamWithTimeout(waiter, 100);
    if (code != 0) {
      EXPECT_TRUE(FailsWith(507046, code));
      EXPECT_TRUE(Succeeds(aclrtStreamAbort(waiter)));
    }
    return code == 0;
  }

  aclrtNotify notify_ = nullptr;
  aclrtCntNotify count_ = nullptr;
  aclrtStream recorder_ = nullptr;  // the default stream
};

TEST_F(NotifyApi, TwoWaitsNeedTwoRecords) {
  ScopedStream stream;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify_, nullptr)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify_, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

TEST_F(NotifyApi, AWaitMayTimeOut) {
  ScopedStream stream;
  const auto start = Clock::now();
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 1)));
  EXPECT_TRUE(FailsWith(107019, aclrtSynchronizeStream(stream), "1 s"));
  EXPECT_GE(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify_, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 1)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

TEST_F(NotifyApi, AbortingAndForcedDestructionEndWaits) {
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  EXPECT_FALSE(IsIdle(stream));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtStreamStop(stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStreamForce(stream)));
}

TEST_F(NotifyApi, BatchResetIsAtOnceAndAllOrNothing) {
  aclrtNotify other = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateNotify(&other, ACL_NOTIFY_DEVICE_USE_ONLY)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify_, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(other, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  aclrtNotify some[] = {notify_, nullptr, other};
  EXPECT_TRUE(FailsWith(107000, aclrtNotifyBatchReset(some, 3), "notifies[1]"));
  some[1] = &some;
  EXPECT_TRUE(FailsWith(107000, aclrtNotifyBatchReset(some, 3)));
  EXPECT_TRUE(FailsWith(107000, aclrtNotifyBatchReset(some, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtNotifyBatchReset(nullptr, 1)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, nullptr, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  some[1] = other;
  EXPECT_TRUE(Succeeds(aclrtNotifyBatchReset(some, 2)));
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(other, stream, 0)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(other)));
}

TEST_F(NotifyApi, WhatRecordingDoesToACount) {
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 0));
  Record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 12);
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 12));
  Record(ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 0xFFFFFFFE);
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 10));
  Record(ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE, 5);
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 15));
  Record(ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE, 0xFE);
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 14));
  EXPECT_TRUE(Succeeds(aclrtCntNotifyReset(count_, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 0));
}

TEST_F(NotifyApi, WhatAWaitForACountMeans) {
  Record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 6);
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, 7));
  EXPECT_FALSE(Holds(ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, 6));
  EXPECT_FALSE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 7));
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 5));
  EXPECT_FALSE(Holds(ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 6));
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 6));
  EXPECT_FALSE(Holds(ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 7));
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE, 2));
  EXPECT_FALSE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE, 3));
  // Only a wait that is satisfied clears.
  EXPECT_FALSE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 7, true));
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 6, true));
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 0));
}

TEST_F(NotifyApi, ClearingLetsWaitsForLessGoOn) {
  Record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 6);
  ScopedStream waiter;
  aclrtCntNotifyWaitInfo less = {ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, 1, 0, 0, {}};
  EXPECT_TRUE(Succeeds(aclrtCntNotifyWaitWithTimeout(count_, waiter, &less)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(waiter, 5)));
  EXPECT_TRUE(Holds(ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 0, true));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(waiter)));
}

TEST_F(NotifyApi, ArgumentsAreChecked) {
  aclrtNotify made = nullptr;
  uint32_t id = 0;
  EXPECT_TRUE(FailsWith(100000, aclrtCreateNotify(nullptr, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtCntNotifyCreate(nullptr, 0)));
  for (const uint64_t flag : {uint64_t{2}, uint64_t{1} << 32}) {
    EXPECT_TRUE(FailsWith(107000, aclrtCreateNotify(&made, flag), "flag"));
    EXPECT_TRUE(FailsWith(107000, aclrtCntNotifyCreate(&made, flag)));
  }
  EXPECT_EQ(made, nullptr);
  EXPECT_TRUE(FailsWith(100000, aclrtDestroyNotify(nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtRecordNotify(nullptr, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtWaitAndResetNotify(nullptr, nullptr, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetNotifyId(nullptr, &id)));
  EXPECT_TRUE(FailsWith(100000, aclrtGetNotifyId(notify_, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtCntNotifyDestroy(nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtCntNotifyReset(nullptr, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtCntNotifyGetId(nullptr, &id)));
  EXPECT_TRUE(FailsWith(100000, aclrtCntNotifyGetId(count_, nullptr)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtCntNotifyRecord(count_, nullptr, nullptr)));
  EXPECT_TRUE(FailsWith(
      100000, aclrtCntNotifyWaitWithTimeout(count_, nullptr, nullptr)));
  for (const int mode : {-1, 3, 5}) {
    aclrtCntNotifyRecordInfo record = {
        static_cast<aclrtCntNotifyRecordMode>(mode), 0};
    EXPECT_TRUE(
        FailsWith(107000, aclrtCntNotifyRecord(count_, nullptr, &record)));
    EXPECT_TRUE(
        FailsWith(107000, aclrtCntNotifyRecord(nullptr, nullptr, &record)));
    if (mode == 3) continue;
    aclrtCntNotifyWaitInfo wait = {
        static_cast<aclrtCntNotifyWaitMode>(mode), 0, 0, 0, {}};
    EXPECT_TRUE(FailsWith(
        107000, aclrtCntNotifyWaitWithTimeout(count_, nullptr, &wait)));
  }
  // Each kind's handle is none of the other's.
  EXPECT_TRUE(FailsWith(107000, aclrtRecordNotify(count_, nullptr),
                        "aclrtCreateNotify"));
  EXPECT_TRUE(FailsWith(107000, aclrtCntNotifyReset(notify_, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyNotify(count_)));
  uint32_t other = 0;
  EXPECT_TRUE(Succeeds(aclrtGetNotifyId(notify_, &id)));
  EXPECT_TRUE(Succeeds(aclrtCntNotifyGetId(count_, &other)));
  EXPECT_NE(id, other);
}

TEST_F(NotifyApi, StaleHandlesAndOtherContextsAreRefused) {
  aclrtNotify gone = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateNotify(&gone, 0)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(gone)));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyNotify(gone), "not destroyed"));
  EXPECT_TRUE(FailsWith(107000, aclrtRecordNotify(gone, nullptr)));
  ScopedStream here;
  aclrtContext other = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&other, 0)));
  EXPECT_TRUE(FailsWith(107003, aclrtRecordNotify(notify_, here)));
  EXPECT_TRUE(FailsWith(107003, aclrtWaitAndResetNotify(notify_, here, 0)));
  EXPECT_TRUE(FailsWith(107003, aclrtCntNotifyReset(count_, here)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify_, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(other)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, here, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(here)));
  std::thread([&] {
    aclrtNotify none = nullptr;
    EXPECT_TRUE(FailsWith(107002, aclrtCreateNotify(&none, 0)));
    EXPECT_TRUE(FailsWith(107002, aclrtCntNotifyCreate(&none, 0)));
    EXPECT_TRUE(FailsWith(107002, aclrtRecordNotify(notify_, nullptr)));
    EXPECT_TRUE(FailsWith(107002, aclrtRecordNotify(notify_, here)));
  }).join();
}

}  // namespace
}  // namespace flashacl::acl
