// SPDX-License-Identifier: Apache-2.0
// Kernels of the program are refused, with a message that names the call.
#include <gtest/gtest.h>

#include "tests/testing/runtime.h"

extern "C" {
int32_t rtDevBinaryRegister(const struct rtDevBinary*, void**);
int32_t rtFunctionRegister(void*, const void*, const char*, const void*,
                           uint32_t);
int32_t rtKernelLaunch(const void*, uint32_t, void*, uint32_t, void*, void*);
int32_t rtGetC2cCtrlAddr(uint64_t*, uint32_t*);
}

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;

TEST(KernelLaunch, SaysSoByName) {
  testing::Message();
  void* handle = nullptr;
  EXPECT_TRUE(FailsWith(207000, rtDevBinaryRegister(nullptr, &handle),
                        "rtDevBinaryRegister is not supported"));
  EXPECT_EQ(handle, nullptr);
  EXPECT_TRUE(FailsWith(207000,
                        rtFunctionRegister(nullptr, nullptr, "x", nullptr, 0),
                        "rtFunctionRegister is not supported"));
  EXPECT_TRUE(FailsWith(
      207000, rtKernelLaunch(nullptr, 1, nullptr, 0, nullptr, nullptr),
      "rtKernelLaunch is not supported"));
  EXPECT_TRUE(FailsWith(207000, rtGetC2cCtrlAddr(nullptr, nullptr),
                        "rtGetC2cCtrlAddr is not supported"));
}

}  // namespace
}  // namespace flashacl::acl
