// SPDX-License-Identifier: Apache-2.0
// Marking the program's own memory as pinned.
#include "acl/host_register.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;

class HostRegisterTest : public RuntimeTest {
 protected:
  std::vector<char> host_ = std::vector<char>(4096);
  char* const p_ = host_.data();
};

TEST_F(HostRegisterTest, RegistersAndForgets) {
  void* device = nullptr;
  EXPECT_FALSE(IsRegistered(p_, 1));
  ASSERT_TRUE(
      Succeeds(aclrtHostRegister(p_, 4096, ACL_HOST_REGISTER_MAPPED, &device)));
  EXPECT_EQ(device, p_);
  EXPECT_TRUE(IsRegistered(p_, 4096));
  EXPECT_TRUE(IsRegistered(p_ + 4095, 1));
  EXPECT_FALSE(IsRegistered(p_ + 1, 4096));
  EXPECT_FALSE(IsRegistered(p_ + 4096, 1));
  void* again = nullptr;
  EXPECT_TRUE(Succeeds(aclrtHostGetDevicePointer(p_ + 8, &again, 0)));
  EXPECT_EQ(again, p_ + 8);
  aclrtPtrAttributes attributes;
  ASSERT_TRUE(Succeeds(aclrtPointerGetAttributes(p_, &attributes)));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  EXPECT_TRUE(Succeeds(aclrtHostUnregister(p_)));
  EXPECT_FALSE(IsRegistered(p_, 1));
}

TEST_F(HostRegisterTest, EveryCode) {
  void* device = nullptr;
  const auto mapped = ACL_HOST_REGISTER_MAPPED;
  EXPECT_TRUE(
      FailsWith(100000, aclrtHostRegister(nullptr, 8, mapped, &device)));
  EXPECT_TRUE(FailsWith(100000, aclrtHostRegister(p_, 0, mapped, &device)));
  EXPECT_TRUE(FailsWith(100000, aclrtHostRegister(p_, 8, mapped, nullptr)));
  EXPECT_TRUE(FailsWith(
      107000, aclrtHostRegister(p_, 8, static_cast<aclrtHostRegisterType>(3),
                                &device)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtHostRegister(p_, UINT64_MAX, mapped, &device)));
  EXPECT_TRUE(FailsWith(100000, aclrtHostRegisterV2(nullptr, 8, 2)));
  EXPECT_TRUE(FailsWith(100000, aclrtHostRegisterV2(p_, 0, 2)));
  EXPECT_TRUE(FailsWith(107000, aclrtHostRegisterV2(p_, 8, 1)));
  EXPECT_TRUE(FailsWith(107000, aclrtHostRegisterV2(p_, 8, 0)));
  EXPECT_EQ(device, nullptr);

  ASSERT_TRUE(Succeeds(aclrtHostRegisterV2(
      p_ + 100, 100, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED)));
  const struct {
    int offset;
    uint64_t size;
    int code;
  } ranges[] = {{100, 100, 507910}, {199, 1, 507910}, {0, 101, 507910},
                {50, 1000, 507910}, {0, 100, 0},      {200, 8, 0}};
  for (const auto& range : ranges) {
    const int code =
        aclrtHostRegister(p_ + range.offset, range.size, mapped, &device);
    EXPECT_TRUE(range.code == 0 ? Succeeds(code) : FailsWith(range.code, code));
    if (code == 0) {
      EXPECT_TRUE(Succeeds(aclrtHostUnregister(p_ + range.offset)));
    }
  }
  EXPECT_TRUE(FailsWith(100000, aclrtHostUnregister(nullptr)));
  EXPECT_TRUE(FailsWith(507911, aclrtHostUnregister(p_)));
  EXPECT_TRUE(FailsWith(507911, aclrtHostUnregister(p_ + 101)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtHostGetDevicePointer(nullptr, &device, 0)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtHostGetDevicePointer(p_ + 100, nullptr, 0)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtHostGetDevicePointer(p_ + 100, &device, 1)));
  EXPECT_TRUE(FailsWith(507911, aclrtHostGetDevicePointer(p_, &device, 0)));
  EXPECT_TRUE(Succeeds(aclrtHostUnregister(p_ + 100)));
  EXPECT_TRUE(FailsWith(507911, aclrtHostUnregister(p_ + 100)));
}

}  // namespace
}  // namespace flashacl::acl
