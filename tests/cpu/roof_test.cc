// SPDX-License-Identifier: Apache-2.0
#include "cpu/roof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "cpu/cpu.h"
#include "cpu/pool.h"
#include "cpu/roof-inl.h"

namespace flashacl::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// The best of some tries: a shared machine is slow now and then, never fast.
template <typename Measure>
double Best(Measure measure) {
  double best = 0;
  for (int n = 0; n < 5; ++n) best = std::max(best, measure());
  return best;
}

// Bytes per second of the probe's own loop on memory in the first cache.
double CachedBandwidth() {
  constexpr size_t kWords = 1024;
  constexpr int kTimes = 20000;
  alignas(64) static uint64_t words[kWords] = {1};
  uint64_t kept = 0;
  const Clock::time_point start = Clock::now();
  for (int n = 0; n < kTimes; ++n) {
    uint64_t sum = 0;
    HWY_STATIC_DISPATCH(ReadAll)(words, kWords, &sum);
    kept += sum;
    words[0] = kept;
  }
  return 8.0 * kWords * kTimes /
         std::chrono::duration<double>(Clock::now() - start).count();
}

// FLOP per second of a loop that is not written for speed.
double PlainFlops() {
  std::vector<float> sums(64, 1.0f);
  constexpr int kTimes = 100000;
  const Clock::time_point start = Clock::now();
  for (int n = 0; n < kTimes; ++n) {
    for (float& sum : sums) sum = sum * 0.999f + 0.5f;
  }
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  EXPECT_GT(sums[63], 1.0f);
  return 2.0 * 64 * kTimes / seconds;
}

TEST(Roof, NobodyMultipliesFaster) {
  Pool one(1);
  const double peak = Best([&] { return MeasureFlops(one); });
  EXPECT_GT(peak, 1e8);
  EXPECT_LT(peak, 1e13);
  EXPECT_LT(PlainFlops(), 1.1 * peak);
}

// The peak belongs to the instructions that kernels may use.
TEST(Roof, FewerInstructionsHaveALowerPeak) {
  if (VectorTarget() != "AVX2") GTEST_SKIP() << "best is " << VectorTarget();
  Pool one(1);
  const double avx2 = Best([&] { return MeasureFlops(one); });
  ASSERT_TRUE(LimitVectorTarget("SSE4").ok());
  const double sse4 = Best([&] { return MeasureFlops(one); });
  ASSERT_TRUE(LimitVectorTarget("").ok());
  EXPECT_LT(sse4, 0.7 * avx2);
  EXPECT_GT(Best([&] { return MeasureFlops(one); }), 0.7 * avx2);
}

// More workers than processors take turns; fewer leave some idle.
TEST(Roof, WorkersAddUp) {
  Pool one(1), all;
  const double alone = Best([&] { return MeasureFlops(one); });
  const double together = Best([&] { return MeasureFlops(all); });
  EXPECT_GT(together, 0.6 * alone);
  EXPECT_LT(together, 1.5 * all.count() * alone);
}

TEST(Roof, ReadingWaitsForMemoryNotForArithmetic) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "every read is looked at";
#endif
  Pool one(1);
  const double memory = Best([&] { return MeasureReadBandwidth(one); });
  EXPECT_GT(memory, 1e8);
  EXPECT_LT(memory, 1e12);
  EXPECT_GT(Best(CachedBandwidth), 1.3 * memory);
}

TEST(Roof, OtherCountsOfWorkersReadToo) {
  Pool pool(1);
  for (const int count : {3, 1, 9}) {
    pool.SetCount(count);
    EXPECT_GT(MeasureReadBandwidth(pool), 0) << count;
  }
}

TEST(Roof, ProbeIsLargerThanCachesWithinBounds) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(ProbeBytes(32 * kMiB, 2), 128 * kMiB);
  EXPECT_EQ(ProbeBytes(4 * kMiB, 1), 64 * kMiB);
  EXPECT_EQ(ProbeBytes(32 * kMiB, 32), 512 * kMiB);
  EXPECT_EQ(ProbeBytes(1024 * kMiB, 1), 1024 * kMiB);
  EXPECT_EQ(ProbeBytes(32 * kMiB + 77, 2) % kMiB, 0);
}

}  // namespace
}  // namespace flashacl::cpu
