// SPDX-License-Identifier: Apache-2.0
#include "acl/share/share_call.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;

// Callers take 207000 for "not supported", and go on without.
TEST(ShareCall, TellsNoSharedMemoryFromNoneLeft) {
  for (const int error : {ENOENT, EACCES, EROFS, ENOSYS}) {
    errno = error;
    EXPECT_TRUE(FailsWith(207000, FailToShare("f"), "/dev/shm"));
  }
  for (const int error : {ENOSPC, ENOMEM, EMFILE}) {
    errno = error;
    EXPECT_TRUE(FailsWith(207005, FailToShare("f"), "ulimit -n"));
  }
}

TEST(ShareCall, NamesOfCallersMayBeAnything) {
  EXPECT_EQ(NumberOf("flashacl-00000000000000ff"), 0xffu);
  EXPECT_EQ(NumberOf("flashacl-00000000000000fg"), 0u);
  EXPECT_EQ(NumberOf(""), 0u);
  const std::string endless(200, 'x');
  EXPECT_EQ(NumberOf(endless.c_str()), 0u);
  EXPECT_EQ(Shown(endless.c_str()), std::string(64, 'x'));
  char buffer[kShareNameBytes];
  WriteName(0xff, buffer);
  EXPECT_STREQ(buffer, "flashacl-00000000000000ff");
}

TEST(ShareCall, SaysWhyNothingIsOpened) {
  const auto fail = [](ShareOpening opening) {
    return FailToOpen(opening, "f", "key", "some", 507899);
  };
  EXPECT_TRUE(FailsWith(507899, fail(ShareOpening::kUnknown), "not closed"));
  EXPECT_TRUE(FailsWith(507899, fail(ShareOpening::kNotListed), "list"));
  EXPECT_TRUE(FailsWith(507899, fail(ShareOpening::kFull), "64 times"));
  EXPECT_EQ(fail(ShareOpening::kOpened), 0);
}

}  // namespace
}  // namespace flashacl::acl
