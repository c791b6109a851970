// SPDX-License-Identifier: Apache-2.0
// Reductions against the same in doubles, which hold every sum exactly that is
// rounded once afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <type_traits>
#include <vector>

#include "acl/acl.h"
#include "acl/latch.h"
#include "acl/memory.h"
#include "acl/stream.h"
#include "base/half.h"
#include "base/random.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;

constexpr auto kSum = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM;
constexpr auto kMax = ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX;
constexpr auto kMin = ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN;

class ReduceTest : public ::flashacl::testing::RuntimeTest {
 protected:
  // What `kind` makes of both sides, which live in device memory meanwhile.
  template <typename T>
  std::vector<T> Reduce(std::vector<T> dst, const std::vector<T>& src,
                        aclrtReduceKind kind, aclDataType type) {
    const size_t bytes = dst.size() * sizeof(T);
    void* device[2] = {};
    for (void*& at : device) {
      EXPECT_TRUE(Succeeds(aclrtMalloc(&at, bytes, ACL_MEM_MALLOC_HUGE_FIRST)));
    }
    EXPECT_TRUE(Succeeds(aclrtMemcpy(device[0], bytes, dst.data(), bytes,
                                     ACL_MEMCPY_HOST_TO_DEVICE)));
    EXPECT_TRUE(Succeeds(aclrtMemcpy(device[1], bytes, src.data(), bytes,
                                     ACL_MEMCPY_HOST_TO_DEVICE)));
    ScopedStream stream;
    EXPECT_TRUE(Succeeds(aclrtReduceAsync(device[0], device[1], bytes, kind,
                                          type, stream, nullptr)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    EXPECT_TRUE(Succeeds(aclrtMemcpy(dst.data(), bytes, device[0], bytes,
                                     ACL_MEMCPY_DEVICE_TO_HOST)));
    for (void* at : device) EXPECT_TRUE(Succeeds(aclrtFree(at)));
    return dst;
  }

  // For random bits, so that all magnitudes meet all others.
  template <typename T, typename ToDouble, typename FromDouble>
  void Check(aclDataType type, ToDouble to_double, FromDouble from_double) {
    constexpr size_t kCount = 200001;
    Random random(static_cast<uint64_t>(type) + 1);
    std::vector<T> dst(kCount), src(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      dst[i] = static_cast<T>(random.Bits());
      src[i] = random.OneIn(8) ? dst[i] : static_cast<T>(random.Bits());
    }
    for (const aclrtReduceKind kind : {kSum, kMax, kMin}) {
      const std::vector<T> got = Reduce(dst, src, kind, type);
      for (size_t i = 0; i < kCount; ++i) {
        const double a = to_double(dst[i]);
        const double b = to_double(src[i]);
        const double want = std::isnan(a) || std::isnan(b) ? NAN
                            : kind == kSum                 ? a + b
                            : kind == kMax                 ? std::max(a, b)
                                                           : std::min(a, b);
        const double is = to_double(got[i]);
        const double rounded = to_double(from_double(want));
        ASSERT_TRUE(is == rounded || (std::isnan(is) && std::isnan(want)))
            << "kind " << kind << ": " << a << ", " << b << ": " << is;
      }
    }
  }
};

TEST_F(ReduceTest, RoundsHalvesOnce) {
  Check<uint16_t>(
      ACL_FLOAT16, [](uint16_t x) { return double{F32FromF16(x)}; },
      [](double x) { return F16FromF64(x); });
}

TEST_F(ReduceTest, RoundsBfloatsOnce) {
  Check<uint16_t>(
      ACL_BF16, [](uint16_t x) { return double{F32FromBf16(x)}; },
      [](double x) { return Bf16FromF64(x); });
}

TEST_F(ReduceTest, AddsFloats) {
  // Multiples of 2^-32 below 2^11, so that a double holds their sums.
  constexpr size_t kCount = 100000;
  Random random(3);
  std::vector<float> dst(kCount), src(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    dst[i] = random.Bell();
    src[i] = std::ldexp(random.Bell(), static_cast<int>(random.Within(-9, 9)));
  }
  for (const aclrtReduceKind kind : {kSum, kMax, kMin}) {
    const auto got = Reduce(dst, src, kind, ACL_FLOAT);
    for (size_t i = 0; i < kCount; ++i) {
      const double a = dst[i], b = src[i];
      const double want = kind == kSum   ? a + b
                          : kind == kMax ? std::max(a, b)
                                         : std::min(a, b);
      ASSERT_EQ(got[i], static_cast<float>(want)) << i;
    }
  }
}

// Sums keep the low bits.
template <typename T>
T Wrapped(double value) {
  const auto whole = static_cast<int64_t>(value);
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(whole));
}

TEST_F(ReduceTest, WrapsIntegersAround) {
  const auto exact = [](auto x) { return static_cast<double>(x); };
  Check<int8_t>(ACL_INT8, exact, [](double x) { return Wrapped<int8_t>(x); });
  Check<int16_t>(ACL_INT16, exact,
                 [](double x) { return Wrapped<int16_t>(x); });
  Check<int32_t>(ACL_INT32, exact,
                 [](double x) { return Wrapped<int32_t>(x); });
}

TEST_F(ReduceTest, NaNsStayAndLargeSumsAreInfinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const aclrtReduceKind kind : {kSum, kMax, kMin}) {
    const auto got = Reduce<float>({nan, 1, 2}, {1, nan, 3}, kind, ACL_FLOAT);
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1]));
    EXPECT_FALSE(std::isnan(got[2]));
  }
  const float most = std::numeric_limits<float>::max();
  const auto got = Reduce<float>({most, -most}, {most, -most}, kSum, ACL_FLOAT);
  EXPECT_TRUE(std::isinf(got[0]) && std::isinf(got[1]));
}

TEST_F(ReduceTest, RunsInTheOrderOfTheStream) {
  ScopedStream stream;
  void* pinned = nullptr;
  void* device = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&pinned, 64)));
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(device, 64, 1, 64, stream)));
  EXPECT_TRUE(Succeeds(aclrtMemset(pinned, 64, 0, 64)));
  for (int i = 0; i < 5; ++i) {  // 0 + 1, five times
    EXPECT_TRUE(Succeeds(
        aclrtReduceAsync(pinned, device, 64, kSum, ACL_INT8, stream, nullptr)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(static_cast<char*>(pinned)[i], 5);
  EXPECT_TRUE(Succeeds(aclrtFree(device)));
  EXPECT_TRUE(Succeeds(aclrtFreeHost(pinned)));
}

TEST_F(ReduceTest, UsesItsMemoryUntilItHasRun) {
  ScopedStream stream;
  Latch gate;
  void* blocks[2] = {};
  for (void*& at : blocks) {
    ASSERT_TRUE(Succeeds(aclrtMalloc(&at, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  }
  EXPECT_TRUE(Succeeds(Find<Stream>(stream)->Push(
      [&] {
        ThisStream().WaitInTask(gate, std::nullopt);
        return 0;
      },
      "test", TaskKind::kWait)));
  EXPECT_TRUE(Succeeds(aclrtReduceAsync(blocks[0], blocks[1], 64, kSum,
                                        ACL_FLOAT, stream, nullptr)));
  for (void* at : blocks) EXPECT_TRUE(IsBlockUsed(at));
  gate.Open();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  for (void* at : blocks) {
    EXPECT_FALSE(IsBlockUsed(at));
    EXPECT_TRUE(Succeeds(aclrtFree(at)));
  }
}

TEST_F(ReduceTest, ArgumentsAreChecked) {
  void* at = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&at, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  const auto call = [&](void* dst, const void* src, uint64_t count, int kind,
                        int type, void* reserve = nullptr) {
    return aclrtReduceAsync(dst, src, count, static_cast<aclrtReduceKind>(kind),
                            static_cast<aclDataType>(type), nullptr, reserve);
  };
  EXPECT_TRUE(FailsWith(100000, call(nullptr, at, 8, kSum, ACL_FLOAT)));
  EXPECT_TRUE(FailsWith(100000, call(at, nullptr, 8, kSum, ACL_FLOAT)));
  EXPECT_TRUE(FailsWith(100000, call(at, at, 8, kSum, ACL_FLOAT, at)));
  EXPECT_TRUE(FailsWith(107000, call(at, at, 0, kSum, ACL_FLOAT), "count"));
  EXPECT_TRUE(FailsWith(107000, call(at, at, 6, kSum, ACL_FLOAT), "count"));
  EXPECT_TRUE(FailsWith(107000, call(at, at, 9, 9, ACL_FLOAT), "kind"));
  EXPECT_TRUE(FailsWith(107000, call(at, at, 9, 14, ACL_FLOAT), "kind"));
  EXPECT_TRUE(FailsWith(207000, call(at, at, 8, 13, ACL_FLOAT), "EQUAL"));
  for (const int type : {ACL_UINT8, ACL_UINT16, ACL_UINT32, ACL_INT4, ACL_INT64,
                         ACL_DOUBLE, ACL_BOOL, ACL_DT_UNDEFINED}) {
    EXPECT_TRUE(FailsWith(100000, call(at, at, 8, kSum, type), "type"));
  }
  void* const odd = static_cast<char*>(at) + 2;
  EXPECT_TRUE(FailsWith(107000, call(odd, at, 8, kSum, ACL_FLOAT), "dst"));
  EXPECT_TRUE(FailsWith(107000, call(at, odd, 8, kSum, ACL_FLOAT), "src"));
  EXPECT_TRUE(FailsWith(107000, call(at, at, 4096, kSum, ACL_FLOAT), "count"));
  Block block;
  ASSERT_TRUE(FindBlock(at, &block));
  void* const late = static_cast<char*>(at) + 4;
  EXPECT_TRUE(FailsWith(107000, call(late, at, block.reserved, kSum, ACL_FLOAT),
                        "count"));
  EXPECT_TRUE(FailsWith(107000, call(at, late, block.reserved, kSum, ACL_FLOAT),
                        "count"));
  alignas(8) float host[2] = {};
  EXPECT_TRUE(FailsWith(107000, call(at, host, 8, kSum, ACL_FLOAT), "src"));
  EXPECT_TRUE(FailsWith(107000, call(host, at, 8, kSum, ACL_FLOAT), "dst"));
  std::thread([&] {
    EXPECT_TRUE(FailsWith(107002, call(at, at, 8, kSum, ACL_FLOAT)));
  }).join();
  EXPECT_TRUE(Succeeds(aclrtFree(at)));
}

}  // namespace
}  // namespace flashacl::acl
