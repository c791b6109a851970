// SPDX-License-Identifier: Apache-2.0
#include "problem/element_walk.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace flashacl {
namespace {

using Runs = std::vector<std::pair<int64_t, int64_t>>;

Runs RunsOf(const TensorSpec& spec, int64_t end = 0) {
  Runs runs;
  ForEachRun(spec, end, [&](int64_t first, int64_t count) {
    runs.emplace_back(first, count);
  });
  return runs;
}

TEST(ElementWalk, DenseRowsAreRuns) {
  const TensorSpec spec{
      .dtype = DType::kF32, .dims = {1, 2, 2, 3}, .strides = {0, 10, 4, 1}};
  EXPECT_EQ(RunsOf(spec), (Runs{{0, 3}, {4, 3}, {10, 3}, {14, 3}}));
}

TEST(ElementWalk, ElementsThatRepeatAreNamedOnce) {
  const TensorSpec spec{.dtype = DType::kF32,
                        .dims = {9, 2, 2, 2},  // the first repeats
                        .strides = {0, 6, 3, 2}};
  std::vector<int64_t> named;
  ForEachElement(spec, 0, [&](int64_t offset) { named.push_back(offset); });
  EXPECT_EQ(named, (std::vector<int64_t>{0, 2, 3, 5, 6, 8, 9, 11}));
}

TEST(ElementWalk, EmptyAxesHaveNoElements) {
  EXPECT_EQ(RunsOf(DenseSpec(DType::kF32, {2, 0, 3, 4})), Runs{});
  EXPECT_EQ(RunsOf(DenseSpec(DType::kF32, {2, 3, 4, 0})), Runs{});
}

TEST(ElementWalk, BlocksEndWhereTheCallerSays) {
  TensorSpec spec{.dtype = DType::kF32, .placement = Placement::kBlocks};
  EXPECT_EQ(RunsOf(spec, 3), (Runs{{0, 1}, {1, 1}, {2, 1}}));
  spec.strides[3] = 2;
  EXPECT_EQ(RunsOf(spec, 3), (Runs{{0, 1}, {2, 1}}));
}

TEST(ElementWalk, ChannelsInBlocksAreOneByOne) {
  const TensorSpec spec{.dtype = DType::kF32,
                        .dims = {1, 1, 1, 4},
                        .strides = {0, 0, 0, 1},
                        .channel_block = 2,
                        .block_stride = 10};
  EXPECT_EQ(RunsOf(spec), (Runs{{0, 1}, {1, 1}, {10, 1}, {11, 1}}));
}

}  // namespace
}  // namespace flashacl
