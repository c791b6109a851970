// SPDX-License-Identifier: Apache-2.0
#include "roof/roof.h"

#include <gtest/gtest.h>

#include <string_view>

#include "backends.h"
#include "cpu/thread_pool.h"

namespace flashacl::roof {
namespace {

constexpr int64_t kL3Bytes = 8 << 20;

// Times are not compared here, however far apart they should be: a shared
// machine may lose half of its speed between two of them. `flashacl bench`
// prints the roofs beside what runs under them.
void ExpectPlausible(double per_second) {
  EXPECT_GT(per_second, 1e7);
  EXPECT_LT(per_second, 1e15);
}

TEST(Roof, IsMeasuredWithAnyNumberOfWorkers) {
  cpu::Pool one(1), all;
  ExpectPlausible(MeasureFlops(one));
  ExpectPlausible(MeasureFlops(all));
  ExpectPlausible(MeasureReadBandwidth(one, kL3Bytes));
  ExpectPlausible(MeasureReadBandwidth(all, kL3Bytes));
}

TEST(Roof, IsMeasuredWithTheInstructionsKernelsMayUse) {
  cpu::Pool one(1);
  for (const std::string_view target : {"SSE4", "NEON", ""}) {
    const Status limited = LimitVectorTarget(target);
    if (!limited.ok()) continue;  // not of this processor's kind
    ExpectPlausible(MeasureFlops(one));
  }
}

TEST(Roof, OtherCountsOfWorkersReadToo) {
  cpu::Pool pool(1);
  for (const int count : {3, 1, 9}) {
    pool.SetCount(count);
    EXPECT_GT(MeasureReadBandwidth(pool, kL3Bytes), 0) << count;
  }
}

TEST(Roof, EachBackendHasItsOwn) {
  for (const Backend& backend : AllBackends()) {
    const Roofs roofs = RoofsOf(backend);
    ExpectPlausible(roofs.flops(backend));
    ExpectPlausible(roofs.read_bandwidth(backend));
  }
  Backend other = CpuBackend();
  other.name = "other";
  EXPECT_EQ(RoofsOf(other).flops, nullptr);
  EXPECT_EQ(RoofsOf(other).read_bandwidth, nullptr);
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
}  // namespace flashacl::roof
