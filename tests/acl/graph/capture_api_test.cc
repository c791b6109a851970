// SPDX-License-Identifier: Apache-2.0
// The functions that capture: their checks, and what they forbid meanwhile.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/graph/lookup.h"
#include "acl/handle.h"
#include "tests/acl/graph/fixture.h"

namespace flashacl::testing {
namespace {

using CaptureApi = GraphTest;

constexpr auto kGlobal = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

TEST_F(CaptureApi, BeginChecksItsArguments) {
  ScopedStream stream;
  EXPECT_TRUE(FailsWith(100000, aclmdlRICaptureBegin(nullptr, kGlobal)));
  for (const int mode : {-1, 3}) {
    EXPECT_TRUE(FailsWith(
        107000,
        aclmdlRICaptureBegin(stream, static_cast<aclmdlRICaptureMode>(mode)),
        "mode"));
  }
  int nothing = 0;
  EXPECT_TRUE(FailsWith(107000, aclmdlRICaptureBegin(&nothing, kGlobal)));
  aclrtStream standard = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCtxGetCurrentDefaultStream(&standard)));
  EXPECT_TRUE(FailsWith(207000, aclmdlRICaptureBegin(standard, kGlobal),
                        "default stream"));
  EXPECT_TRUE(FailsWith(207000, aclmdlRICaptureEnd(standard, &failed_)));
  Begin(stream);
  EXPECT_TRUE(FailsWith(107027, aclmdlRICaptureBegin(stream, kGlobal)));
  Destroy(End(stream));
}

TEST_F(CaptureApi, BeginIsForStreamsOfTheCurrentContext) {
  ScopedStream stream;
  aclrtContext before = nullptr;
  aclrtContext other = nullptr;
  ASSERT_TRUE(Succeeds(aclrtGetCurrentContext(&before)));
  ASSERT_TRUE(Succeeds(aclrtCreateContext(&other, 0)));
  EXPECT_TRUE(FailsWith(107003, aclmdlRICaptureBegin(stream, kGlobal)));
  ASSERT_TRUE(Succeeds(aclrtDestroyContext(other)));
  ASSERT_TRUE(Succeeds(aclrtSetCurrentContext(before)));
  std::thread([&] {
    EXPECT_TRUE(FailsWith(107002, aclmdlRICaptureBegin(stream, kGlobal)));
    EXPECT_TRUE(FailsWith(107002, aclmdlRICaptureEnd(stream, &failed_)));
    auto mode = kGlobal;
    EXPECT_TRUE(FailsWith(107002, aclmdlRICaptureThreadExchangeMode(&mode)));
  }).join();
}

// What a capture forbids, it forbids in its context.
TEST_F(CaptureApi, ACaptureBindsNoOtherContext) {
  constexpr size_t kBytes = 64;
  void* block = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&block, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
  aclrtContext before = nullptr;
  aclrtContext other = nullptr;
  ASSERT_TRUE(Succeeds(aclrtGetCurrentContext(&before)));
  {
    ScopedStream stream;
    int32_t id = 0;
    EXPECT_TRUE(Succeeds(aclrtStreamGetId(stream, &id)));
    Begin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    EXPECT_TRUE(FailsWith(107030, aclrtMemset(block, kBytes, 1, kBytes)));
    EXPECT_TRUE(FailsWith(107027, aclrtSynchronizeDevice(),
                          "stream " + std::to_string(id)));
    ASSERT_TRUE(Succeeds(aclrtCreateContext(&other, 0)));
    EXPECT_TRUE(Succeeds(aclrtMemset(block, kBytes, 2, kBytes)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    {
      ScopedStream second;  // with a capture of its own
      Begin(second, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
      Say(second, "2");
      // A captured stream takes work whatever the current context is.
      Say(stream, "1");
      const aclmdlRI graph = End(second);
      Replay(graph, second);
      EXPECT_EQ(Log(), "2");
      Destroy(graph);
    }
    // The end, too, names its stream.
    const aclmdlRI graph = End(stream);
    Replay(graph, stream);
    EXPECT_EQ(Log(), "1");
    Destroy(graph);
    ASSERT_TRUE(Succeeds(aclrtDestroyContext(other)));
    ASSERT_TRUE(Succeeds(aclrtSetCurrentContext(before)));
  }
  EXPECT_TRUE(Succeeds(aclrtFree(block)));
}

TEST_F(CaptureApi, InfoNeedsNoContextAndOneOutput) {
  ScopedStream stream, captured;
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
  aclmdlRI graph = &graph;
  EXPECT_TRUE(
      FailsWith(100000, aclmdlRICaptureGetInfo(nullptr, &status, &graph)));
  EXPECT_TRUE(
      FailsWith(100000, aclmdlRICaptureGetInfo(stream, nullptr, nullptr)));
  Begin(captured);
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRICaptureGetInfo(&status, &status, nullptr)));
  std::thread([&] {
    EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, &status, &graph)));
  }).join();
  EXPECT_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  EXPECT_EQ(graph, nullptr);
  Destroy(End(captured));
}

TEST_F(CaptureApi, EndChecksItsArguments) {
  ScopedStream stream;
  EXPECT_TRUE(FailsWith(100000, aclmdlRICaptureEnd(nullptr, &failed_)));
  EXPECT_TRUE(FailsWith(107029, aclmdlRICaptureEnd(stream, &failed_)));
  Begin(stream);
  EXPECT_TRUE(FailsWith(107000, aclmdlRICaptureEnd(stream, nullptr)));
  EXPECT_EQ(StatusOf(stream), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  Destroy(End(stream));
}

TEST_F(CaptureApi, ACaptureThatFailsToBeginLeavesNothing) {
  const auto graphs = [] {
    return acl::LiveHandles()[static_cast<size_t>(acl::HandleKind::kGraph)];
  };
  const int64_t before = graphs();
  ScopedStream stream;
  Begin(stream);
  EXPECT_EQ(graphs(), before + 1);
  EXPECT_TRUE(FailsWith(107027, aclmdlRICaptureBegin(stream, kGlobal)));
  Destroy(End(stream));
  EXPECT_EQ(graphs(), before);
}

// What a capture forbids on its stream, and leaves as it is.
TEST_F(CaptureApi, CallsThatWaitAreRefusedAndChangeNothing) {
  ScopedStream stream;
  ScopedEvent event;
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  aclrtStreamStatus status;
  aclrtEventRecordedStatus recorded;
  aclrtEventStatus queried;
  uint64_t time = 0;
  float ms = 0;
  aclrtStreamAttrValue value{};
  const std::vector<std::pair<int, std::function<aclError()>>> calls = {
      {107027, [&] { return aclrtSynchronizeStream(stream); }},
      {107027, [&] { return aclrtSynchronizeStreamWithTimeout(stream, 1); }},
      {107027, [&] { return aclrtStreamQuery(stream, &status); }},
      {107027, [&] { return aclrtStreamAbort(stream); }},
      {107027, [&] { return aclrtDestroyStream(stream); }},
      {107027, [&] { return aclrtDestroyStreamForce(stream); }},
      {107027, [&] { return aclrtSynchronizeDevice(); }},
      {107027, [&] { return aclrtSynchronizeDeviceWithTimeout(1); }},
      {107027, [&] { return aclrtSetStreamOverflowSwitch(stream, 1); }},
      {107027,
       [&] {
         return aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG,
                                        &value);
       }},
      {107028, [&] { return aclrtSynchronizeEvent(event); }},
      {107028, [&] { return aclrtQueryEventStatus(event, &recorded); }},
      {107028, [&] { return aclrtQueryEvent(event, &queried); }},
      {107028, [&] { return aclrtEventElapsedTime(&ms, event, event); }},
      {107028, [&] { return aclrtEventGetTimestamp(event, &time); }},
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_TRUE(FailsWith(calls[i].first, calls[i].second())) << i;
    EXPECT_EQ(StatusOf(stream), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE) << i;
  }
  EXPECT_TRUE(Succeeds(
      aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value)));
  Destroy(End(stream));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

TEST_F(CaptureApi, AGraphIsNotReplayedOnACapturedStream) {
  ScopedStream stream;
  Begin(stream);
  const aclmdlRI graph = End(stream);
  Begin(stream);
  EXPECT_TRUE(FailsWith(107027, aclmdlRIExecuteAsync(graph, stream)));
  Destroy(End(stream));
  Destroy(graph);
}

TEST_F(CaptureApi, PageableMemoryIsRefusedOnACapturedStream) {
  ScopedStream stream;
  void* device = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  std::vector<char> pageable(64);
  Begin(stream);
  EXPECT_TRUE(FailsWith(107000,
                        aclrtMemcpyAsync(device, 64, pageable.data(), 64,
                                         ACL_MEMCPY_HOST_TO_DEVICE, stream),
                        "aclrtMallocHost"));
  EXPECT_EQ(StatusOf(stream), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  Destroy(End(stream));
  EXPECT_TRUE(Succeeds(aclrtFree(device)));
}

}  // namespace
}  // namespace flashacl::testing
