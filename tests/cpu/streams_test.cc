// SPDX-License-Identifier: Apache-2.0
// Which results go past the caches, and that the last store of a row stays.
#include "cpu/streams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cpu/implementations.h"
#include "tests/cpu/fences.h"
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

// Every fourth row begins with a line; where rows are stored one by one, it
// alone goes past the caches.
TEST(Streams, RowsThatBeginWithinALineDoNot) {
  for (const char* line :
       {"fwd f32 h=1 d=32 q=70 k=30", "fwd bf16 h=1 d=64 q=70 k=30",
        "bwd f32 h=1 d=32 q=70 k=30", "bwd bf16 h=1 d=64 q=70 k=30"}) {
    SCOPED_TRACE(line);
    AttentionProblem problem = testing::ProblemOf(line);
    const bool forward = problem.direction == Direction::kForward;
    const Slot slot = forward ? Slot::kOut : Slot::kGradQuery;
    TensorSpec& spec = problem[slot];
    const int64_t apart = spec.dims[3] + (spec.dtype == DType::kF32 ? 4 : 8);
    spec.strides = {70 * apart, apart, apart, 1};
    SmallCase small(problem);
    Random random(1);
    small.FillInputs(random);
    if (!forward) RunForwardTwin(small);
    const testing::FencedTensors streamed(small,
                                          testing::FencedBytes::Side::kStart);
    DeviceInfo device;
    const Implementation& tiles = forward ? kCpuForward : kCpuBackward;
    testing::LaunchFenced(tiles, problem, small.bindings(), device);
    device.streamed_bytes = 0;
    testing::LaunchFenced(tiles, problem, streamed.bindings(), device);
    testing::ExpectSameBits(small, streamed.bindings(), {slot});
  }
}

// Sums of such values leave the range of fp32 where outputs do not: their rows
// are stored, and once more after another way.
TEST(Streams, RowsThatAreStoredAgainAreTheLastOnes) {
  constexpr float kValue = 3e38f;
  SmallCase small(testing::ProblemOf("fwd f32 h=2 d=32 q=40 k=200"));
  Random random(1);
  small.FillInputs(random);
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t j = 0; j < 200; ++j) {
      for (int64_t d = 0; d < 32; ++d) {
        small.PutKey(Slot::kValue, {0, j, head}, d, double{kValue});
      }
    }
  }
  const testing::FencedTensors streamed(small,
                                        testing::FencedBytes::Side::kStart);
  DeviceInfo device;
  testing::LaunchFenced(kCpuForward, small.problem(), small.bindings(), device);
  device.streamed_bytes = 0;
  testing::LaunchFenced(kCpuForward, small.problem(), streamed.bindings(),
                        device);
  testing::ExpectSameBits(small, streamed.bindings(), {Slot::kOut});
  for (size_t n = 0; n < size_t{2} * 40 * 32; ++n) {
    float out = 0;
    std::memcpy(&out, streamed.bindings()[Slot::kOut] + 4 * n, 4);
    ASSERT_NEAR(out / kValue, 1, 1e-5) << n;
  }
}

}  // namespace
}  // namespace flashacl::cpu
