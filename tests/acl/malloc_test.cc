// SPDX-License-Identifier: Apache-2.0
// Reserving and releasing memory through the C API.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

class MallocTest : public RuntimeTest {};

// Every function that gives memory, with the one that takes it back.
struct Pair {
  const char* name;
  std::function<aclError(void**, size_t)> malloc;
  aclError (*free)(void*);
  bool needs_context;
};

const Pair kPairs[] = {
    {"aclrtMalloc",
     [](void** p, size_t n) {
       return aclrtMalloc(p, n, ACL_MEM_MALLOC_HUGE_FIRST);
     },
     aclrtFree, true},
    {"aclrtMallocAlign32",
     [](void** p, size_t n) {
       return aclrtMallocAlign32(p, n, ACL_MEM_MALLOC_NORMAL_ONLY);
     },
     aclrtFree, true},
    {"aclrtMallocCached",
     [](void** p, size_t n) {
       return aclrtMallocCached(p, n, ACL_MEM_MALLOC_HUGE_ONLY);
     },
     aclrtFreeWithDevSync, true},
    {"aclrtMallocWithCfg",
     [](void** p, size_t n) {
       aclrtMallocAttribute attribute = {};
       attribute.attr = ACL_RT_MEM_ATTR_MODULE_ID;
       aclrtMallocConfig config = {&attribute, 1};
       return aclrtMallocWithCfg(p, n, ACL_MEM_MALLOC_HUGE1G_ONLY, &config);
     },
     aclrtFree, true},
    {"aclrtMallocForTaskScheduler",
     [](void** p, size_t n) {
       return aclrtMallocForTaskScheduler(p, n, ACL_MEM_MALLOC_HUGE_FIRST,
                                          nullptr);
     },
     aclrtFree, true},
    {"aclrtMallocHost", aclrtMallocHost, aclrtFreeHost, false},
    {"aclrtMallocHostWithCfg",
     [](void** p, size_t n) { return aclrtMallocHostWithCfg(p, n, nullptr); },
     aclrtFreeHostWithDevSync, false},
};

TEST_F(MallocTest, EveryCodeOfEveryPair) {
  for (const Pair& pair : kPairs) {
    SCOPED_TRACE(pair.name);
    EXPECT_TRUE(FailsWith(100000, pair.malloc(nullptr, 8), pair.name));
    int somewhere = 0;
    void* const untouched = &somewhere;
    void* p = untouched;
    EXPECT_TRUE(FailsWith(100000, pair.malloc(&p, 0), "size"));
    EXPECT_TRUE(FailsWith(207001, pair.malloc(&p, SIZE_MAX), "not available"));
    EXPECT_TRUE(FailsWith(207001, pair.malloc(&p, SIZE_MAX / 2)));
    EXPECT_EQ(p, untouched);
    EXPECT_TRUE(FailsWith(100000, pair.free(nullptr), "NULL"));
    ASSERT_TRUE(Succeeds(pair.malloc(&p, 1000)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
    char* const bytes = static_cast<char*>(p);
    EXPECT_TRUE(FailsWith(107000, pair.free(bytes + 64), "64 bytes inside"));
    EXPECT_TRUE(Succeeds(pair.free(p)));
    EXPECT_TRUE(FailsWith(107000, pair.free(p), "freed before"));
    int local = 0;
    EXPECT_TRUE(FailsWith(107000, pair.free(&local)));
  }
}

TEST_F(MallocTest, HostAndDeviceDoNotMix) {
  void* device = nullptr;
  void* host = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 8, ACL_MEM_MALLOC_NORMAL_ONLY)));
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&host, 8)));
  EXPECT_TRUE(FailsWith(107000, aclrtFree(host), "another function"));
  EXPECT_TRUE(FailsWith(107000, aclrtFreeHost(device), "another function"));
  EXPECT_TRUE(Succeeds(aclrtFree(device)));
  EXPECT_TRUE(Succeeds(aclrtFreeHost(host)));
}

// Samples free after they destroyed their context; threads without one cannot
// reserve device memory, but host memory.
TEST_F(MallocTest, OnlyReservingOnTheDeviceNeedsAContext) {
  std::thread([] {
    for (const Pair& pair : kPairs) {
      SCOPED_TRACE(pair.name);
      void* p = nullptr;
      if (pair.needs_context) {
        EXPECT_TRUE(FailsWith(107002, pair.malloc(&p, 8), pair.name));
        continue;
      }
      EXPECT_TRUE(Succeeds(pair.malloc(&p, 8)));
      EXPECT_TRUE(Succeeds(pair.free(p)));
    }
  }).join();
  void* p = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&p, 8, ACL_MEM_MALLOC_HUGE_FIRST)));
  std::thread([p] { EXPECT_TRUE(Succeeds(aclrtFree(p))); }).join();
}

TEST_F(MallocTest, AnyPolicyIsAccepted) {
  for (const int policy :
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 0x100, 0x1000, 0x100000}) {
    for (const size_t size : {size_t{1}, size_t{1} << 20, size_t{5} << 20}) {
      void* p = nullptr;
      ASSERT_TRUE(Succeeds(
          aclrtMalloc(&p, size, static_cast<aclrtMemMallocPolicy>(policy))));
      aclrtPtrAttributes attributes;
      ASSERT_TRUE(Succeeds(aclrtPointerGetAttributes(p, &attributes)));
      const bool asked_huge =
          policy == 1 || policy == 4 || policy == 6 || policy == 7;
      if (asked_huge) {
        EXPECT_EQ(attributes.pageSize, 2u << 20);
      }
      if (policy == 2 || policy == 5) {
        EXPECT_EQ(attributes.pageSize, 4096u);
      }
      EXPECT_TRUE(Succeeds(aclrtFree(p)));
    }
  }
}

// What is reserved shows: 32 bytes more than asked and rounded for aclrtMalloc,
// none more for the aligned and the gigantic kind.
TEST_F(MallocTest, PaddingIsAsDocumented) {
  const auto writable = [](void* p, size_t bytes) {
    const int code = aclrtMemset(p, bytes, 0, bytes);
    Message();
    return code == 0;
  };
  void* p = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&p, 33, ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(writable(p, 96));
  EXPECT_FALSE(writable(p, 97));
  EXPECT_TRUE(Succeeds(aclrtFree(p)));
  ASSERT_TRUE(Succeeds(aclrtMallocAlign32(&p, 33, ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(writable(p, 64));
  EXPECT_FALSE(writable(p, 65));
  EXPECT_TRUE(Succeeds(aclrtFree(p)));
  ASSERT_TRUE(Succeeds(aclrtMalloc(&p, 33, ACL_MEM_MALLOC_HUGE1G_ONLY)));
  EXPECT_TRUE(writable(p, 64));
  EXPECT_FALSE(writable(p, 65));
  EXPECT_TRUE(Succeeds(aclrtFree(p)));
}

TEST_F(MallocTest, FreeingWithSyncWaitsForTheDevice) {
  ScopedStream stream;
  void* device = nullptr;
  void* host = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 8, ACL_MEM_MALLOC_HUGE_FIRST)));
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&host, 8)));
  std::atomic<bool> ran{false};
  const auto slow = [](void* data) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    *static_cast<std::atomic<bool>*>(data) = true;
  };
  ASSERT_TRUE(Succeeds(aclrtLaunchHostFunc(stream, slow, &ran)));
  EXPECT_TRUE(Succeeds(aclrtFreeWithDevSync(device)));
  EXPECT_TRUE(ran);
  ran = false;
  ASSERT_TRUE(Succeeds(aclrtLaunchHostFunc(stream, slow, &ran)));
  EXPECT_TRUE(Succeeds(aclrtFreeHostWithDevSync(host)));
  EXPECT_TRUE(ran);
}

// Plain free returns at once, yet a queued copy still finds its memory.
TEST_F(MallocTest, FreeingEarlyDoesNotHurtQueuedWork) {
  ScopedStream stream;
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future();
  const auto wait = [](void* data) {
    static_cast<std::shared_future<void>*>(data)->wait();
  };
  constexpr size_t kBytes = 8 << 20;
  void* from = nullptr;
  void* to = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&from, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&to, kBytes)));
  ASSERT_TRUE(Succeeds(aclrtMemset(from, kBytes, 0x5A, kBytes)));
  ASSERT_TRUE(Succeeds(aclrtLaunchHostFunc(stream, wait, &opened)));
  ASSERT_TRUE(Succeeds(aclrtMemcpyAsync(to, kBytes, from, kBytes,
                                        ACL_MEMCPY_DEVICE_TO_HOST, stream)));
  EXPECT_TRUE(Succeeds(aclrtFree(from)));
  EXPECT_TRUE(FailsWith(107000, aclrtFree(from)));
  gate.set_value();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  const unsigned char* const bytes = static_cast<unsigned char*>(to);
  EXPECT_EQ(bytes[0], 0x5A);
  EXPECT_EQ(bytes[kBytes - 1], 0x5A);
  EXPECT_TRUE(Succeeds(aclrtFreeHost(to)));
}

// A child, which Malloc.StrictModeTellsLeaksAtFinalize starts.
TEST(MallocChild, DISABLED_LeaksAreToldAtFinalize) {
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  void* p = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&p, 1234, ACL_MEM_MALLOC_HUGE_FIRST)));
  ASSERT_TRUE(Succeeds(aclrtResetDevice(0)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  EXPECT_NE(Message().find("1 device block (1234 bytes)"), std::string::npos);
  EXPECT_TRUE(Succeeds(aclrtFree(p)));  // still there
}

// A child, which Malloc.StrictModeSaysWhatUsesMemory starts.
TEST(MallocChild, DISABLED_UsedMemoryIsNotFreed) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  void* block = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  ScopedStream stream;
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future();
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream,
      [](void* data) { static_cast<std::shared_future<void>*>(data)->wait(); },
      &opened)));
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(block, 64, 0, 64, stream)));
  EXPECT_TRUE(FailsWith(107000, aclrtFree(block), "synchronize, or"));
  gate.set_value();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  ASSERT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(block, 64, 0, 64, stream)));
  aclmdlRI graph = nullptr;
  ASSERT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  EXPECT_TRUE(FailsWith(107000, aclrtFree(block), "destroy the graph first"));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
  EXPECT_TRUE(Succeeds(aclrtFree(block)));
}

TEST(Malloc, StrictModeSaysWhatUsesMemory) {
  const auto child = RunChild("MallocChild.DISABLED_UsedMemoryIsNotFreed",
                              {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

TEST(Malloc, StrictModeTellsLeaksAtFinalize) {
  const auto child = RunChild("MallocChild.DISABLED_LeaksAreToldAtFinalize",
                              {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::acl
