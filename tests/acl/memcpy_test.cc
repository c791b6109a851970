// SPDX-License-Identifier: Apache-2.0
// aclrtMemcpy and its relatives: every code, in the documented order of checks,
// and what arrives.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <numeric>
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

using Bytes = std::vector<unsigned char>;

Bytes Counting(size_t size) {
  Bytes bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  return bytes;
}

aclrtMemcpyKind Kind(int kind) { return static_cast<aclrtMemcpyKind>(kind); }

class MemcpyTest : public RuntimeTest {
 protected:
  static constexpr size_t kBytes = 1024;

  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(
        Succeeds(aclrtMalloc(&device_, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
    ASSERT_TRUE(Succeeds(aclrtMemset(device_, kBytes, 0, kBytes)));
  }
  void TearDown() override {
    EXPECT_TRUE(Succeeds(aclrtFree(device_)));
    RuntimeTest::TearDown();
  }

  void* device_ = nullptr;
};

using CopyFunction =
    std::function<aclError(void*, size_t, const void*, size_t, int)>;

struct Form {
  const char* name;
  CopyFunction copy;
  bool on_stream;
};

const Form kForms[] = {
    {"aclrtMemcpy",
     [](void* dst, size_t max, const void* src, size_t count, int kind) {
       return aclrtMemcpy(dst, max, src, count, Kind(kind));
     },
     false},
    {"aclrtMemcpyAsync",
     [](void* dst, size_t max, const void* src, size_t count, int kind) {
       return aclrtMemcpyAsync(dst, max, src, count, Kind(kind), nullptr);
     },
     true},
    {"aclrtMemcpyAsyncWithCondition",
     [](void* dst, size_t max, const void* src, size_t count, int kind) {
       return aclrtMemcpyAsyncWithCondition(dst, max, src, count, Kind(kind),
                                            nullptr);
     },
     true},
};

TEST_F(MemcpyTest, EveryCodeInTheOrderOfChecks) {
  Bytes host(2 * kBytes);
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    EXPECT_TRUE(Succeeds(form.copy(nullptr, 0, nullptr, 0, 99)));
    EXPECT_TRUE(
        FailsWith(100000, form.copy(nullptr, 0, nullptr, 1, 99), "dst"));
    EXPECT_TRUE(
        FailsWith(100000, form.copy(device_, 0, nullptr, 1, 99), "src"));
    for (const int kind : {-1, 6, 7, 99}) {
      EXPECT_TRUE(FailsWith(100000, form.copy(device_, 0, host.data(), 1, kind),
                            "kind"));
    }
    EXPECT_TRUE(FailsWith(107000, form.copy(device_, 7, host.data(), 8, 1),
                          "at most destMax, which is 7"));
    EXPECT_TRUE(Succeeds(form.copy(device_, 8, device_, 8, 3)));
    // Onto itself nothing moves, so its extent is not looked at.
    EXPECT_TRUE(
        Succeeds(form.copy(device_, 2 * kBytes, device_, 2 * kBytes, 3)));
    std::thread([&] {
      EXPECT_TRUE(Succeeds(form.copy(device_, 8, host.data(), 0, 1)));
      EXPECT_TRUE(FailsWith(107002, form.copy(device_, 8, host.data(), 8, 1)));
    }).join();
    EXPECT_TRUE(FailsWith(
        107000, form.copy(device_, 2 * kBytes, host.data(), 2 * kBytes, 1),
        "write of 2048 bytes at offset 0 of a 1024-byte"));
    if (form.on_stream) {
      EXPECT_TRUE(FailsWith(
          207000, form.copy(host.data(), 8, host.data() + 8, 8, 0), "host"));
    } else {
      EXPECT_TRUE(Succeeds(form.copy(host.data(), 8, host.data() + 8, 8, 0)));
    }
  }
}

// The kind only has to be a number; the addresses say what is copied.
TEST_F(MemcpyTest, AnyPlacementCombinationCopies) {
  const Bytes sent = Counting(kBytes);
  for (const Form& form : kForms) {
    for (int kind = form.on_stream ? 1 : 0; kind <= 5; ++kind) {
      SCOPED_TRACE(std::string(form.name) + " kind " + std::to_string(kind));
      ASSERT_TRUE(Succeeds(aclrtMemset(device_, kBytes, 0, kBytes)));
      Bytes got(kBytes);
      EXPECT_TRUE(
          Succeeds(form.copy(device_, kBytes, sent.data(), kBytes, kind)));
      EXPECT_TRUE(
          Succeeds(form.copy(got.data(), kBytes, device_, kBytes, kind)));
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
      EXPECT_EQ(got, sent);
    }
  }
}

TEST_F(MemcpyTest, InteriorPointersAndOverlapWork) {
  const Bytes sent = Counting(kBytes);
  unsigned char* const device = static_cast<unsigned char*>(device_);
  ASSERT_TRUE(Succeeds(aclrtMemcpy(device, kBytes, sent.data(), kBytes,
                                   ACL_MEMCPY_HOST_TO_DEVICE)));
  ASSERT_TRUE(Succeeds(aclrtMemcpy(device + 10, kBytes - 10, device, 500,
                                   ACL_MEMCPY_DEVICE_TO_DEVICE)));
  Bytes got(500);
  ASSERT_TRUE(Succeeds(aclrtMemcpy(got.data(), 500, device + 10, 500,
                                   ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_TRUE(std::equal(got.begin(), got.end(), sent.begin()));
}

// What a sample does: half precision read back as if it were single.
TEST_F(MemcpyTest, ReadingPastTheEndGivesZeros) {
  const Bytes sent = Counting(kBytes);
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    ASSERT_TRUE(Succeeds(form.copy(device_, kBytes, sent.data(), kBytes, 1)));
    Bytes got(4 * kBytes, 0xEE);
    EXPECT_TRUE(
        Succeeds(form.copy(got.data(), 4 * kBytes, device_, 4 * kBytes, 2)));
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), got.begin()));
    EXPECT_EQ(std::count(got.begin() + kBytes, got.end(), 0),
              static_cast<std::ptrdiff_t>(3 * kBytes));
  }
}

TEST_F(MemcpyTest, WritesMayReachThePaddingButNotFurther) {
  const Bytes sent = Counting(kBytes + 33);
  EXPECT_TRUE(Succeeds(aclrtMemcpy(device_, kBytes + 32, sent.data(),
                                   kBytes + 32, ACL_MEMCPY_HOST_TO_DEVICE)));
  ASSERT_TRUE(Succeeds(aclrtMemset(device_, kBytes + 32, 9, kBytes + 32)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtMemcpy(device_, kBytes + 33, sent.data(),
                                    kBytes + 33, ACL_MEMCPY_HOST_TO_DEVICE)));
  Bytes got(kBytes + 32);
  ASSERT_TRUE(Succeeds(aclrtMemcpy(got.data(), got.size(), device_, got.size(),
                                   ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(got, Bytes(kBytes + 32, 9));
}

// A gate in a stream: what is queued after it does not run before Open.
class Gate {
 public:
  explicit Gate(aclrtStream stream) {
    const auto wait = [](void* data) {
      static_cast<std::shared_future<void>*>(data)->wait();
    };
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(stream, wait, &opened_)));
  }
  void Open() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future();
};

TEST_F(MemcpyTest, PinnedMemoryIsCopiedWhenTheStreamGetsThere) {
  ScopedStream stream;
  void* pinned = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&pinned, kBytes)));
  std::memset(pinned, 1, kBytes);
  Gate gate(stream);
  EXPECT_TRUE(Succeeds(aclrtMemcpyAsync(device_, kBytes, pinned, kBytes,
                                        ACL_MEMCPY_HOST_TO_DEVICE, stream)));
  std::memset(pinned, 2, kBytes);  // the copy has not looked yet
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  unsigned char got = 0;
  ASSERT_TRUE(
      Succeeds(aclrtMemcpy(&got, 1, device_, 1, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(got, 2);
  EXPECT_TRUE(Succeeds(aclrtFreeHost(pinned)));
}

TEST_F(MemcpyTest, PageableMemoryMakesTheCallWaitInStreamOrder) {
  ScopedStream stream;
  Gate gate(stream);
  Bytes host(kBytes, 3);
  std::atomic<bool> returned{false};
  std::thread caller([&] {
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    EXPECT_TRUE(Succeeds(aclrtMemcpyAsync(device_, kBytes, host.data(), kBytes,
                                          ACL_MEMCPY_HOST_TO_DEVICE, stream)));
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(returned);
  gate.Open();
  caller.join();
  // Nothing reads `host` any more.
  host.assign(kBytes, 4);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  unsigned char got = 0;
  ASSERT_TRUE(
      Succeeds(aclrtMemcpy(&got, 1, device_, 1, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(got, 3);
}

TEST_F(MemcpyTest, KindFiveCopiesTheSourceBeforeItReturns) {
  ScopedStream stream;
  Gate gate(stream);
  Bytes host(kBytes, 5);
  EXPECT_TRUE(
      Succeeds(aclrtMemcpyAsync(device_, kBytes, host.data(), kBytes,
                                ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream)));
  host.assign(kBytes, 6);
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  unsigned char got = 0;
  ASSERT_TRUE(
      Succeeds(aclrtMemcpy(&got, 1, device_, 1, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(got, 5);
}

TEST_F(MemcpyTest, StaleStreamsAreRefused) {
  aclrtStream stream = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  ASSERT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  char host[8] = {};
  const int code =
      aclrtMemcpyAsync(device_, 8, host, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream);
  EXPECT_NE(code, 0);
  EXPECT_NE(Message(), "");
}

TEST_F(MemcpyTest, RectanglesEveryCode) {
  Bytes host(kBytes);
  const auto both = [&](void* dst, size_t dpitch, const void* src,
                        size_t spitch, size_t width, size_t height, int kind) {
    const int now =
        aclrtMemcpy2d(dst, dpitch, src, spitch, width, height, Kind(kind));
    const int later = aclrtMemcpy2dAsync(dst, dpitch, src, spitch, width,
                                         height, Kind(kind), nullptr);
    EXPECT_EQ(now, later);
    return now;
  };
  EXPECT_TRUE(Succeeds(both(nullptr, 0, nullptr, 0, 0, 4, 99)));
  EXPECT_TRUE(Succeeds(both(nullptr, 0, nullptr, 0, 4, 0, 99)));
  EXPECT_TRUE(FailsWith(100000, both(nullptr, 8, host.data(), 8, 4, 4, 1)));
  EXPECT_TRUE(FailsWith(100000, both(device_, 8, nullptr, 8, 4, 4, 1)));
  for (const int kind : {-1, 0, 5, 6}) {
    EXPECT_TRUE(
        FailsWith(100000, both(device_, 8, host.data(), 8, 4, 4, kind)));
  }
  EXPECT_TRUE(
      FailsWith(100000, both(device_, 3, host.data(), 8, 4, 4, 1), "dpitch"));
  EXPECT_TRUE(
      FailsWith(100000, both(device_, 8, host.data(), 3, 4, 4, 1), "spitch"));
  EXPECT_TRUE(FailsWith(107000, both(device_, kBytes, host.data(), 8, 4, 3, 1),
                        "write"));
  EXPECT_TRUE(FailsWith(
      107000, both(device_, SIZE_MAX, host.data(), 8, 4, 3, 1), "height"));
  std::thread([&] {
    EXPECT_TRUE(FailsWith(107002, both(device_, 8, host.data(), 8, 4, 4, 1)));
  }).join();
}

TEST_F(MemcpyTest, RectanglesArriveAndNothingElseChanges) {
  const Bytes sent = Counting(8 * 16);
  for (const bool async : {false, true}) {
    ASSERT_TRUE(Succeeds(aclrtMemset(device_, kBytes, 0xEE, kBytes)));
    const auto kind = ACL_MEMCPY_HOST_TO_DEVICE;
    ASSERT_TRUE(Succeeds(
        async ? aclrtMemcpy2dAsync(device_, 20, sent.data(), 16, 10, 8, kind,
                                   nullptr)
              : aclrtMemcpy2d(device_, 20, sent.data(), 16, 10, 8, kind)));
    Bytes got(160);
    ASSERT_TRUE(Succeeds(
        aclrtMemcpy(got.data(), 160, device_, 160, ACL_MEMCPY_DEVICE_TO_HOST)));
    for (size_t row = 0; row < 8; ++row) {
      for (size_t i = 0; i < 20; ++i) {
        const unsigned char expected = i < 10 ? sent[row * 16 + i] : 0xEE;
        ASSERT_EQ(got[row * 20 + i], expected) << row << " " << i;
      }
    }
  }
}

TEST_F(MemcpyTest, RectanglesPastTheEndReadZeros) {
  ASSERT_TRUE(Succeeds(aclrtMemset(device_, kBytes, 7, kBytes)));
  Bytes got(8 * 200, 0xEE);
  ASSERT_TRUE(Succeeds(aclrtMemcpy2d(got.data(), 200, device_, 200, 190, 8,
                                     ACL_MEMCPY_DEVICE_TO_HOST)));
  for (size_t row = 0; row < 8; ++row) {
    for (size_t i = 0; i < 190; ++i) {
      const int expected = row * 200 + i < kBytes ? 7 : 0;
      ASSERT_EQ(got[row * 200 + i], expected) << row << " " << i;
    }
    ASSERT_EQ(got[row * 200 + 190], 0xEE);
  }
}

// A child, which Memcpy.StrictModeRefusesWhatTheDeviceWould starts.
TEST(MemcpyChild, DISABLED_Strict) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  void* device = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 65536, ACL_MEM_MALLOC_HUGE_FIRST)));
  Bytes host(131072);
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    EXPECT_TRUE(FailsWith(107000,
                          form.copy(host.data(), 131072, device, 131072, 2),
                          "read of 131072 bytes at offset 0 of a 65536-byte "
                          "allocation"));
    EXPECT_TRUE(FailsWith(
        107000, form.copy(device, 65537, host.data(), 65537, 1), "write"));
    EXPECT_TRUE(FailsWith(107000, form.copy(device, 8, host.data(), 8, 2),
                          "dst is device memory"));
    EXPECT_TRUE(FailsWith(107000, form.copy(host.data(), 8, host.data(), 9, 1),
                          "destMax"));
    EXPECT_TRUE(FailsWith(107000,
                          form.copy(host.data(), 8, host.data() + 8, 8, 1),
                          "dst is host memory"));
    EXPECT_TRUE(FailsWith(107000, form.copy(device, 8, host.data(), 8, 3),
                          "src is host memory"));
    EXPECT_TRUE(Succeeds(form.copy(device, 8, host.data(), 8, 1)));
    EXPECT_TRUE(Succeeds(form.copy(device, 8, host.data(), 8, 4)));
    EXPECT_TRUE(Succeeds(form.copy(host.data(), 65536, device, 65536, 2)));
  }
}

TEST(Memcpy, StrictModeRefusesWhatTheDeviceWould) {
  const auto child =
      RunChild("MemcpyChild.DISABLED_Strict", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::acl
