// SPDX-License-Identifier: Apache-2.0
// Which results go past the caches.
#include "cpu/streams.h"

#include <gtest/gtest.h>

#include "tests/cpu/runs.h"

namespace flashacl::cpu {
namespace {

TEST(Streams, BeginAtTheBytesOfAllResults) {
  const bool here = kProcessorKind != ProcessorKind::kArm;
  DeviceInfo device;
  // 8 MiB of dq, dk and dv.
  const AttentionProblem backward =
      testing::ProblemOf("bwd f32 h=16/8 d=64 q=1024 k=1024");
  EXPECT_EQ(StreamsResults(backward, device), here);
  device.streamed_bytes = (8 << 20) + 1;
  EXPECT_FALSE(StreamsResults(backward, device));

  const AttentionProblem forward =
      testing::ProblemOf("fwd bf16 h=4 d=16/32 q=8 k=100");
  device.streamed_bytes = 4 * 32 * 8 * 2;
  EXPECT_EQ(StreamsResults(forward, device), here);
  ++device.streamed_bytes;
  EXPECT_FALSE(StreamsResults(forward, device));
}

}  // namespace
}  // namespace flashacl::cpu
