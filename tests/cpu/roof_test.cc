// SPDX-License-Identifier: Apache-2.0
#include "cpu/roof.h"

#include <gtest/gtest.h>

#include <string_view>

#include "cpu/cpu_info.h"
#include "cpu/thread_pool.h"

namespace flashacl::cpu {
namespace {

// Times are not compared here, however far apart they should be: a shared
// machine may lose half of its speed between two of them. `flashacl bench`
// prints the roofs beside what runs under them.
void ExpectPlausible(double per_second) {
  EXPECT_GT(per_second, 1e7);
  EXPECT_LT(per_second, 1e15);
}

TEST(Roof, IsMeasuredWithAnyNumberOfWorkers) {
  Pool one(1), all;
  ExpectPlausible(MeasureFlops(one));
  ExpectPlausible(MeasureFlops(all));
  ExpectPlausible(MeasureReadBandwidth(one));
  ExpectPlausible(MeasureReadBandwidth(all));
}

TEST(Roof, IsMeasuredWithTheInstructionsKernelsMayUse) {
  Pool one(1);
  for (const std::string_view target : {"SSE4", ""}) {
    const Status limited = LimitVectorTarget(target);
    if (!limited.ok()) continue;  // not of this processor's kind
    ExpectPlausible(MeasureFlops(one));
  }
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
