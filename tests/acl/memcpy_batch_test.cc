// SPDX-License-Identifier: Apache-2.0
// Many copies by one call: which one is at fault, and that none is made then.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;

// Two copies to the device and one back; tests change one thing of it.
struct Arguments {
  std::vector<void*> dsts;
  std::vector<size_t> maxs;
  std::vector<void*> srcs;
  std::vector<size_t> sizes;
  std::vector<aclrtMemcpyBatchAttr> attrs;
  std::vector<size_t> starts;
};

aclrtMemcpyBatchAttr Attribute(aclrtMemLocationType dst,
                               aclrtMemLocationType src) {
  aclrtMemcpyBatchAttr attr = {};
  attr.dstLoc.type = dst;
  attr.srcLoc.type = src;
  return attr;
}

class MemcpyBatchTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(Succeeds(aclrtMalloc(&device_, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
    ASSERT_TRUE(Succeeds(aclrtMemset(device_, 64, 0, 64)));
    char* const device = static_cast<char*>(device_);
    good_.dsts = {device, device + 16, host_ + 32};
    good_.srcs = {host_, host_ + 16, device + 32};
    good_.maxs = good_.sizes = {8, 8, 8};
    good_.attrs = {
        Attribute(ACL_MEM_LOCATION_TYPE_DEVICE, ACL_MEM_LOCATION_TYPE_HOST),
        Attribute(ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_DEVICE)};
    good_.starts = {0, 2};
  }
  void TearDown() override {
    EXPECT_TRUE(Succeeds(aclrtFree(device_)));
    RuntimeTest::TearDown();
  }

  // By all four functions, which must agree; the index at fault in *failed.
  aclError Copy(Arguments& a, size_t* failed) {
    const size_t n = a.sizes.size();
    size_t other = 7;
    *failed = 7;
    const int now = aclrtMemcpyBatch(
        a.dsts.data(), a.maxs.data(), a.srcs.data(), a.sizes.data(), n,
        a.attrs.data(), a.starts.data(), a.attrs.size(), failed);
    EXPECT_EQ(
        aclrtMemcpyBatchAsync(a.dsts.data(), a.maxs.data(), a.srcs.data(),
                              a.sizes.data(), n, a.attrs.data(),
                              a.starts.data(), a.attrs.size(), &other, nullptr),
        now);
    EXPECT_EQ(*failed, other);
    EXPECT_EQ(aclrtMemcpyBatchV2(a.dsts.data(), a.maxs.data(), a.srcs.data(),
                                 a.sizes.data(), n, a.attrs.data(),
                                 a.starts.data(), a.attrs.size()),
              now);
    EXPECT_EQ(aclrtMemcpyBatchAsyncV2(
                  a.dsts.data(), a.maxs.data(), a.srcs.data(), a.sizes.data(),
                  n, a.attrs.data(), a.starts.data(), a.attrs.size(), nullptr),
              now);
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
    return now;
  }

  void* device_ = nullptr;
  char host_[64] = "one";
  Arguments good_;
};

TEST_F(MemcpyBatchTest, CopiesAll) {
  size_t failed = 0;
  ASSERT_TRUE(Succeeds(Copy(good_, &failed)));
  EXPECT_EQ(failed, SIZE_MAX);
  char got[4] = "";
  ASSERT_TRUE(
      Succeeds(aclrtMemcpy(got, 4, device_, 4, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_STREQ(got, "one");
}

TEST_F(MemcpyBatchTest, NothingToDoIsFine) {
  Arguments none;
  size_t failed = 0;
  EXPECT_TRUE(Succeeds(Copy(none, &failed)));
  EXPECT_EQ(failed, SIZE_MAX);
  good_.sizes = {0, 0, 0};
  good_.dsts = {nullptr, nullptr, nullptr};
  EXPECT_TRUE(Succeeds(Copy(good_, &failed)));
}

TEST_F(MemcpyBatchTest, EveryCode) {
  struct Case {
    const char* what;
    std::function<void(Arguments&)> change;
    int code;
    size_t failed;
  };
  const Case cases[] = {
      {"null destination", [](Arguments& a) { a.dsts[1] = nullptr; }, 100000,
       1},
      {"null source", [](Arguments& a) { a.srcs[2] = nullptr; }, 100000, 2},
      {"too long", [](Arguments& a) { a.maxs[1] = 7; }, 107000, 1},
      {"past the block", [](Arguments& a) { a.sizes[0] = a.maxs[0] = 97; },
       107000, 0},
      {"host to host",
       [](Arguments& a) {
         a.attrs[1] =
             Attribute(ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_HOST);
       },
       107000, 2},
      {"first attribute late", [](Arguments& a) { a.starts[0] = 1; }, 107000,
       SIZE_MAX},
      {"falling starts", [](Arguments& a) { a.starts[1] = 0; }, 107000,
       SIZE_MAX},
      {"start past the end", [](Arguments& a) { a.starts[1] = 3; }, 107000,
       SIZE_MAX},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    Arguments bad = good_;
    c.change(bad);
    size_t failed = 0;
    EXPECT_TRUE(FailsWith(c.code, Copy(bad, &failed), "aclrtMemcpyBatch"));
    EXPECT_EQ(failed, c.failed);
    char got = 'x';
    ASSERT_TRUE(
        Succeeds(aclrtMemcpy(&got, 1, device_, 1, ACL_MEMCPY_DEVICE_TO_HOST)));
    EXPECT_EQ(got, 0);  // nothing was copied
  }
}

TEST_F(MemcpyBatchTest, NullArraysAndNoContext) {
  Arguments& a = good_;
  size_t failed = 0;
  const auto call = [&](void** dsts, size_t* maxs, void** srcs, size_t* sizes,
                        size_t* index) {
    return aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 3, a.attrs.data(),
                            a.starts.data(), 2, index);
  };
  void** const d = a.dsts.data();
  void** const s = a.srcs.data();
  size_t* const m = a.maxs.data();
  size_t* const z = a.sizes.data();
  EXPECT_TRUE(FailsWith(100000, call(nullptr, m, s, z, &failed), "dsts"));
  EXPECT_TRUE(FailsWith(100000, call(d, nullptr, s, z, &failed), "destMaxs"));
  EXPECT_TRUE(FailsWith(100000, call(d, m, nullptr, z, &failed), "srcs"));
  EXPECT_TRUE(FailsWith(100000, call(d, m, s, nullptr, &failed), "sizes"));
  EXPECT_TRUE(FailsWith(100000, call(d, m, s, z, nullptr), "failIndex"));
  EXPECT_TRUE(FailsWith(
      100000, aclrtMemcpyBatchV2(d, m, s, z, 3, nullptr, a.starts.data(), 2),
      "attrs"));
  EXPECT_TRUE(FailsWith(
      100000, aclrtMemcpyBatchV2(d, m, s, z, 3, a.attrs.data(), nullptr, 2),
      "attrsIndexes"));
  EXPECT_TRUE(Succeeds(aclrtMemcpyBatchV2(d, m, s, z, 3, nullptr, nullptr, 0)));
  std::thread([&] {
    EXPECT_TRUE(FailsWith(107002, call(d, m, s, z, &failed)));
  }).join();
}

}  // namespace
}  // namespace flashacl::acl
