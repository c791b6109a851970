// SPDX-License-Identifier: Apache-2.0
// Words in device memory: what each condition means, who may write them, and
// what ends a wait.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/backend.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class ValueTest : public ::flashacl::testing::RuntimeTest {
 protected:
  static constexpr size_t kWords = 8;

  void SetUp() override {
    RuntimeTest::SetUp();
    void* block = nullptr;
    ASSERT_TRUE(Succeeds(aclrtMallocAlign32(&block, kWords * sizeof(uint64_t),
                                            ACL_MEM_MALLOC_NORMAL_ONLY)));
    words_ = static_cast<uint64_t*>(block);
    for (size_t i = 0; i < kWords; ++i) Set(i, 0);
  }
  void TearDown() override {
    EXPECT_TRUE(words_ == nullptr || Succeeds(aclrtFree(words_)));
    RuntimeTest::TearDown();
  }

  std::byte* At(size_t i) { return reinterpret_cast<std::byte*>(words_ + i); }
  // As another process or the host writes: nobody is told.
  void Set(size_t i, uint64_t value) { DeviceMemory().StoreWord(At(i), value); }
  uint64_t Get(size_t i) { return DeviceMemory().LoadWord(At(i)); }

  // Whether a wait for word 0 is satisfied now.
  bool Holds(uint64_t word, uint32_t condition, uint64_t value) {
    Set(0, word);
    ScopedStream stream;
    // So that the time is not that of starting a thread.
    EXPECT_TRUE(Succeeds(aclrtValueWrite(words_ + 1, 0, 0, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    EXPECT_TRUE(Succeeds(aclrtValueWait(words_, value, condition, stream)));
    const int code = aclrtSynchronizeStreamWithTimeout(stream, 100);
    if (code == 0) return true;
    EXPECT_TRUE(FailsWith(507046, code));
    EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
    return false;
  }

  uint64_t* words_ = nullptr;
};

TEST_F(ValueTest, WhatConditionsMean) {
  constexpr uint64_t kMost = ~uint64_t{0};
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  EXPECT_TRUE(Holds(7, ACL_STREAM_WAIT_VALUE_GEQ, 7));
  EXPECT_TRUE(Holds(8, ACL_STREAM_WAIT_VALUE_GEQ, 7));
  EXPECT_FALSE(Holds(6, ACL_STREAM_WAIT_VALUE_GEQ, 7));
  // Counts that wrap around: a little more is more.
  EXPECT_TRUE(Holds(1, ACL_STREAM_WAIT_VALUE_GEQ, kMost));
  EXPECT_FALSE(Holds(kMost, ACL_STREAM_WAIT_VALUE_GEQ, 1));
  EXPECT_FALSE(Holds(kHalf, ACL_STREAM_WAIT_VALUE_GEQ, 0));
  EXPECT_TRUE(Holds(kHalf + 5, ACL_STREAM_WAIT_VALUE_EQ, kHalf + 5));
  EXPECT_FALSE(Holds(5, ACL_STREAM_WAIT_VALUE_EQ, kHalf + 5));
  EXPECT_TRUE(Holds(6, ACL_STREAM_WAIT_VALUE_AND, 3));
  EXPECT_FALSE(Holds(6, ACL_STREAM_WAIT_VALUE_AND, 9));
  EXPECT_TRUE(Holds(6, ACL_STREAM_WAIT_VALUE_NOR, 9));
  EXPECT_FALSE(Holds(kMost - 6, ACL_STREAM_WAIT_VALUE_NOR, 6));
}

// As frameworks make an event of it: wait for 1, and set it back.
TEST_F(ValueTest, AWordIsAnEvent) {
  ScopedStream waiter, writer;
  int seen = 0, written = 0;
  struct Step {
    int *seen, *written;
  } step{&seen, &written};
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(
        Succeeds(aclrtValueWait(words_, 1, ACL_STREAM_WAIT_VALUE_EQ, waiter)));
    EXPECT_TRUE(Succeeds(aclrtValueWrite(words_, 0, 0, waiter)));
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        waiter,
        [](void* at) {
          const Step& s = *static_cast<Step*>(at);
          EXPECT_EQ(*s.written, ++*s.seen);
        },
        &step)));
    EXPECT_TRUE(Succeeds(aclrtValueWrite(words_ + 1, 1, 0, waiter)));
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        writer, [](void* at) { ++*static_cast<Step*>(at)->written; }, &step)));
    EXPECT_TRUE(Succeeds(aclrtValueWrite(words_, 1, 0, writer)));
    EXPECT_TRUE(Succeeds(
        aclrtValueWait(words_ + 1, 1, ACL_STREAM_WAIT_VALUE_EQ, writer)));
    EXPECT_TRUE(Succeeds(aclrtValueWrite(words_ + 1, 0, 0, writer)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  EXPECT_EQ(seen, 200);
}

TEST_F(ValueTest, WritesComeAfterWhatTheStreamDidBefore) {
  ScopedStream waiter, writer;
  int value = 0;  // shared by nothing but the word
  EXPECT_TRUE(Succeeds(aclrtValueWait(words_, 3, 0, waiter)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      waiter, [](void* at) { EXPECT_EQ(*static_cast<int*>(at), 3); }, &value)));
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
        writer, [](void* at) { ++*static_cast<int*>(at); }, &value)));
    EXPECT_TRUE(Succeeds(aclrtValueWrite(words_, i, 0, writer)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  EXPECT_EQ(Get(0), 3u);
}

TEST_F(ValueTest, ManyStreamsWaitForOneWord) {
  std::vector<aclrtStream> streams(8);
  for (aclrtStream& stream : streams) {
    ASSERT_TRUE(Succeeds(aclrtCreateStream(&stream)));
    EXPECT_TRUE(Succeeds(aclrtValueWait(words_, 1, 1, stream)));
  }
  EXPECT_TRUE(Succeeds(aclrtValueWrite(words_, 1, 0, nullptr)));
  for (aclrtStream stream : streams) {
    EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  }
}

TEST_F(ValueTest, OthersMayWriteToo) {
  for (const int ms : {0, 2, 25}) {  // looked for often, and then seldom
    Set(0, 0);
    ScopedStream stream;
    EXPECT_TRUE(Succeeds(aclrtValueWait(words_, 5, 1, stream)));
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    Set(0, 5);
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
}

TEST_F(ValueTest, AbortingEndsAWait) {
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  EXPECT_TRUE(Succeeds(aclrtValueWait(words_, 1, 1, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 15)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtValueWait(words_, 1, 1, stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStreamForce(stream)));
}

TEST_F(ValueTest, FreeingTheWordEndsAWait) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtValueWait(words_, 1, 1, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtFree(words_)));
  words_ = nullptr;
  EXPECT_TRUE(FailsWith(107000, aclrtSynchronizeStream(stream), "freed"));
}

// A wait, a write and a notify mean the same in each replay.
TEST_F(ValueTest, GraphsReplayThem) {
  ScopedStream stream;
  aclmdlRI graph = nullptr;
  aclrtNotify notify = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify, 0)));
  EXPECT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(Succeeds(aclrtValueWait(words_, 1, 1, stream)));
  EXPECT_TRUE(Succeeds(aclrtValueWrite(words_, 0, 0, stream)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify, stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtValueWrite(words_ + 1, 7, 0, stream)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  for (int i = 0; i < 20; ++i) {
    Set(1, 0);
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    EXPECT_TRUE(Succeeds(aclrtValueWrite(words_, 1, 0, nullptr)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    EXPECT_EQ(Get(0), 0u);
    EXPECT_EQ(Get(1), 7u);
  }
  // An abort ends a replay that waits.
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_TRUE(FailsWith(507046, aclrtSynchronizeStreamWithTimeout(stream, 5)));
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify)));
}

TEST_F(ValueTest, ArgumentsAreChecked) {
  void* const host = this;
  void* pinned = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&pinned, 64)));
  EXPECT_TRUE(FailsWith(100000, aclrtValueWrite(nullptr, 0, 0, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclrtValueWait(nullptr, 0, 0, nullptr)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtValueWrite(words_, 0, 1, nullptr), "flag"));
  EXPECT_TRUE(FailsWith(107000, aclrtValueWait(words_, 0, 4, nullptr), "flag"));
  for (void* at : {host, pinned, static_cast<void*>(At(0) + 4),
                   static_cast<void*>(At(kWords + 4) - 4)}) {
    EXPECT_TRUE(FailsWith(107000, aclrtValueWrite(at, 0, 0, nullptr)));
    EXPECT_TRUE(FailsWith(107000, aclrtValueWait(at, 0, 0, nullptr)));
  }
  int local = 0;
  EXPECT_TRUE(FailsWith(107000, aclrtValueWrite(words_, 0, 0, &local)));
  std::thread([&] {
    EXPECT_TRUE(FailsWith(107002, aclrtValueWrite(words_, 0, 0, nullptr)));
    EXPECT_TRUE(FailsWith(107002, aclrtValueWait(words_, 0, 0, nullptr)));
  }).join();
  EXPECT_TRUE(Succeeds(aclrtFreeHost(pinned)));
}

}  // namespace
}  // namespace flashacl::acl
