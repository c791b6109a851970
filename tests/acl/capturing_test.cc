// SPDX-License-Identifier: Apache-2.0
// What a capture forbids to the calls of others that wait.
#include "acl/capturing.h"

#include <gtest/gtest.h>

#include <thread>
#include <tuple>
#include <vector>

#include "acl/acl.h"
#include "tests/acl/graph/fixture.h"

namespace flashacl::testing {
namespace {

using CapturingTest = GraphTest;

constexpr auto kGlobal = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
constexpr auto kThreadLocal = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto kRelaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

// The capture's mode, the calling thread's, and whether it is the one that
// captures.
class CaptureModes
    : public GraphTest,
      public ::testing::WithParamInterface<std::tuple<int, int, bool>> {};

TEST_P(CaptureModes, SayWhoMayWait) {
  const auto [mode, own, same] = GetParam();
  // What section "when a synchronous call is allowed" of the documents says.
  bool allowed = true;
  if (own == kGlobal) {
    allowed = mode != kGlobal && !(same && mode == kThreadLocal);
  } else if (own == kThreadLocal) {
    allowed = !(same && mode != kRelaxed);
  }
  ScopedStream stream, other;
  void* device = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  std::vector<char> host(64);
  Begin(stream, static_cast<aclmdlRICaptureMode>(mode));
  const auto call = [&] {
    ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
    auto exchanged = static_cast<aclmdlRICaptureMode>(own);
    EXPECT_TRUE(Succeeds(aclmdlRICaptureThreadExchangeMode(&exchanged)));
    EXPECT_EQ(exchanged, kGlobal);
    const auto check = [&](int code, aclError got) {
      EXPECT_TRUE(allowed ? Succeeds(got) : FailsWith(code, got));
    };
    char* const data = host.data();
    check(107030, aclrtMemcpy(device, 64, data, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    check(107030, aclrtMemset(device, 64, 1, 64));
    check(107030, aclrtMemsetD32(device, 64, 1, 16));
    void* to = device;
    void* from = data;
    size_t size = 64;
    check(107030,
          aclrtMemcpyBatchV2(&to, &size, &from, &size, 1, nullptr, nullptr, 0));
    check(107030,
          aclrtMemcpy2d(device, 8, data, 8, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    check(107041, aclrtMemcpyAsync(device, 64, data, 64,
                                   ACL_MEMCPY_HOST_TO_DEVICE, other));
    EXPECT_TRUE(Succeeds(aclrtMemsetAsync(device, 64, 1, 64, other)));
    EXPECT_TRUE(Succeeds(aclmdlRICaptureThreadExchangeMode(&exchanged)));
    EXPECT_EQ(exchanged, static_cast<aclmdlRICaptureMode>(own));
    EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  };
  if (same) {
    call();
  } else {
    std::thread(call).join();
  }
  Destroy(End(stream));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
  EXPECT_TRUE(Succeeds(aclrtMemset(device, 64, 1, 64)));  // no capture any more
  EXPECT_TRUE(Succeeds(aclrtFree(device)));
}

INSTANTIATE_TEST_SUITE_P(All, CaptureModes,
                         ::testing::Combine(::testing::Range(0, 3),
                                            ::testing::Range(0, 3),
                                            ::testing::Bool()));

TEST_F(CapturingTest, ModesAreChecked) {
  EXPECT_TRUE(FailsWith(100000, aclmdlRICaptureThreadExchangeMode(nullptr)));
  auto mode = static_cast<aclmdlRICaptureMode>(3);
  EXPECT_TRUE(FailsWith(107000, aclmdlRICaptureThreadExchangeMode(&mode)));
}

}  // namespace
}  // namespace flashacl::testing
