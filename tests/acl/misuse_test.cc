// SPDX-License-Identifier: Apache-2.0
// What programs do wrong with memory. The rest of the runtime:
// misuse_order_test.cc; operators: tests/ops/misuse_test.cc.
#include "tests/testing/misuse.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

constexpr auto kNormal = ACL_MEM_MALLOC_NORMAL_ONLY;
constexpr auto kToDevice = ACL_MEMCPY_HOST_TO_DEVICE;
constexpr size_t kBytes = Scene::kBytes;

char* After(void* at, size_t bytes) { return static_cast<char*>(at) + bytes; }

using Misused = RuntimeTest;

TEST_F(Misused, Blocks) {
  ExpectRefusals({
      {"aclrtMalloc(nullptr, 64)",
       [](Scene&) { return aclrtMalloc(nullptr, 64, kNormal); },
       100000,
       {"aclrtMalloc", "devPtr", "NULL"}},
      {"aclrtMalloc of 0 bytes",
       [](Scene&) {
         void* p = nullptr;
         return aclrtMalloc(&p, 0, kNormal);
       },
       100000,
       {"aclrtMalloc", "size", "0"}},
      {"aclrtMalloc of -1 bytes",
       [](Scene&) {
         void* p = nullptr;
         return aclrtMalloc(&p, static_cast<size_t>(-1), kNormal);
       },
       207001,
       {"aclrtMalloc", "18446744073709551615", "not available"}},
      {"aclrtMalloc of more than the device has",
       [](Scene&) {
         void* p = nullptr;
         return aclrtMalloc(&p, size_t{1} << 46, kNormal);
       },
       207001,
       {"aclrtMalloc", "70368744177664", "not available"}},
      {"aclrtMalloc with a policy that nobody knows, which is the usual one",
       [](Scene&) {
         void* p = nullptr;
         const int status =
             aclrtMalloc(&p, 64, static_cast<aclrtMemMallocPolicy>(9999));
         EXPECT_TRUE(Succeeds(aclrtFree(p)));
         return status;
       },
       0,
       {}},
  });
}

TEST_F(Misused, BlocksThatAreFreed) {
  ExpectRefusals({
      {"aclrtFree(nullptr)",
       [](Scene&) { return aclrtFree(nullptr); },
       100000,
       {"aclrtFree", "devPtr", "NULL"}},
      {"aclrtFree of host memory",
       [](Scene& s) {
         int local = 0;
         s.Says("{}", static_cast<void*>(&local));
         return aclrtFree(&local);
       },
       107000,
       {"aclrtFree", "devPtr", "is no block"}},
      {"aclrtFree inside of a block",
       [](Scene& s) { return aclrtFree(After(s.a, 64)); },
       107000,
       {"aclrtFree", "64 bytes inside"}},
      {"aclrtFree twice",
       [](Scene& s) {
         EXPECT_TRUE(Succeeds(aclrtFree(s.a)));
         s.Says("{}", s.a);
         return aclrtFree(s.a);
       },
       107000,
       {"aclrtFree", "freed before"}},
      {"aclrtFree of a block of aclrtMallocHost",
       [](Scene& s) {
         void* host = nullptr;
         EXPECT_TRUE(Succeeds(aclrtMallocHost(&host, 64)));
         const int status = s.Keep(aclrtFree(host));
         EXPECT_TRUE(Succeeds(aclrtFreeHost(host)));
         return status;
       },
       107000,
       {"aclrtFree", "another function"}},
      {"aclrtFreeHost of a device block",
       [](Scene& s) { return aclrtFreeHost(s.a); },
       107000,
       {"aclrtFreeHost", "another function"}},
  });
}

TEST_F(Misused, Copies) {
  static char host[2 * kBytes];
  ExpectRefusals({
      {"aclrtMemcpy to null",
       [](Scene&) { return aclrtMemcpy(nullptr, 8, host, 8, kToDevice); },
       100000,
       {"aclrtMemcpy", "dst", "NULL"}},
      {"aclrtMemcpy from null",
       [](Scene& s) { return aclrtMemcpy(s.a, 8, nullptr, 8, kToDevice); },
       100000,
       {"aclrtMemcpy", "src", "NULL"}},
      {"aclrtMemcpy of kind 77",
       [](Scene& s) {
         return aclrtMemcpy(s.a, 8, host, 8, static_cast<aclrtMemcpyKind>(77));
       },
       100000,
       {"aclrtMemcpy", "kind", "77", "0 to 5"}},
      {"aclrtMemcpy of more than destMax",
       [](Scene& s) { return aclrtMemcpy(s.a, 7, host, 8, kToDevice); },
       107000,
       {"aclrtMemcpy", "count", "8", "at most destMax, which is 7"}},
      {"aclrtMemcpy past a block",
       [](Scene& s) {
         return aclrtMemcpy(s.a, 2 * kBytes, host, 2 * kBytes, kToDevice);
       },
       107000,
       {"aclrtMemcpy", "write of 512 bytes at offset 0", "256-byte"}},
      {"aclrtMemcpy of -1 bytes",
       [](Scene& s) {
         constexpr auto kMinusOne = static_cast<size_t>(-1);
         return aclrtMemcpy(s.a, kMinusOne, host, kMinusOne, kToDevice);
       },
       107000,
       {"aclrtMemcpy", "18446744073709551615", "256-byte"}},
  });
}

TEST_F(Misused, RectanglesAndFills) {
  static char host[2 * kBytes];
  ExpectRefusals({
      {"aclrtMemcpy2d of rows wider than their pitch",
       [](Scene& s) { return aclrtMemcpy2d(s.a, 8, host, 4, 8, 2, kToDevice); },
       100000,
       {"aclrtMemcpy2d", "spitch", "4", "at least width, which is 8"}},
      {"aclrtMemcpy2d of more rows than there are",
       [](Scene& s) {
         return aclrtMemcpy2d(s.a, 64, host, 64, 64, 8, kToDevice);
       },
       107000,
       {"aclrtMemcpy2d", "write", "256-byte"}},
      {"aclrtMemset of null",
       [](Scene&) { return aclrtMemset(nullptr, 8, 0, 8); },
       100000,
       {"aclrtMemset", "devPtr", "NULL"}},
      {"aclrtMemset of more than maxCount",
       [](Scene& s) { return aclrtMemset(s.a, 7, 0, 8); },
       107000,
       {"aclrtMemset", "count", "8", "7"}},
      {"aclrtMemset past a block",
       [](Scene& s) { return aclrtMemset(s.a, 2 * kBytes, 0, 2 * kBytes); },
       107000,
       {"aclrtMemset", "512", "256-byte"}},
  });
}

TEST_F(Misused, CopiesOnStreams) {
  static char host[2 * kBytes];
  ExpectRefusals({
      {"aclrtMemcpyAsync on a destroyed stream",
       [](Scene& s) {
         const aclrtStream gone = std::exchange(s.stream, nullptr);
         EXPECT_TRUE(Succeeds(aclrtDestroyStream(gone)));
         s.Says("{}", gone);
         return aclrtMemcpyAsync(s.b, 8, s.a, 8, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                 gone);
       },
       107000,
       {"aclrtMemcpyAsync", "stream", "not destroyed"}},
      {"aclrtMemcpyAsync from host to host",
       [](Scene& s) {
         return aclrtMemcpyAsync(host, 8, host + 8, 8, ACL_MEMCPY_HOST_TO_HOST,
                                 s.stream);
       },
       207000,
       {"aclrtMemcpyAsync", "kind 0", "not supported"}},
      {"aclrtReduceAsync at an address that no float has",
       [](Scene& s) {
         s.Says("{}", static_cast<void*>(After(s.a, 2)));
         return aclrtReduceAsync(After(s.a, 2), s.b, 8,
                                 ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT,
                                 s.stream, nullptr);
       },
       107000,
       {"aclrtReduceAsync", "dst", "a multiple of 4"}},
      {"aclrtValueWrite at an address that no word has",
       [](Scene& s) { return aclrtValueWrite(After(s.a, 4), 1, 0, s.stream); },
       107000,
       {"aclrtValueWrite", "devAddr", "multiple of 8"}},
      {"aclrtHostRegister of null",
       [](Scene&) {
         void* mapped = nullptr;
         return aclrtHostRegister(nullptr, 64, ACL_HOST_REGISTER_MAPPED,
                                  &mapped);
       },
       100000,
       {"aclrtHostRegister", "ptr", "NULL"}},
      {"aclrtHostUnregister of what nobody registered",
       [](Scene& s) {
         s.Says("{}", static_cast<void*>(host));
         return aclrtHostUnregister(host);
       },
       507911,
       {"aclrtHostUnregister", "is not registered"}},
  });
}

}  // namespace
}  // namespace flashacl::testing
