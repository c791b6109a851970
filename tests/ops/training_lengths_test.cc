// SPDX-License-Identifier: Apache-2.0
// Cumulative lengths become row ranges, and statistics follow the sequences.
#include "ops/training_lengths.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

using testing::HostArray;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

acl::Tensor View(std::vector<int64_t> dims, std::vector<int64_t> strides) {
  acl::Tensor tensor;
  tensor.acl_dtype = ACL_FLOAT;
  tensor.rank = dims.size();
  std::copy(dims.begin(), dims.end(), tensor.dims.begin());
  std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  return tensor;
}

TEST(ReadPacked, FollowsTheCumulativeEnds) {
  const auto packed =
      ReadPacked(HostArray({2, 4, 4, 7}), HostArray({3, 3, 8, 9}), {9, 9});
  ASSERT_TRUE(packed.ok());
  const std::vector<Sequence> expected = {
      {{0, 2}, {0, 3}}, {{2, 4}, {3, 3}}, {{4, 4}, {3, 8}}, {{4, 7}, {8, 9}}};
  EXPECT_EQ(packed->sequences, expected);
  EXPECT_EQ(packed->rows, 7);
  EXPECT_EQ(packed->columns, 9);
  EXPECT_EQ(packed->max_rows, 3);
  EXPECT_EQ(packed->max_columns, 5);
  EXPECT_EQ(packed->scores, 2 * 3 + 3 * 1);
}

// Whatever is not above its predecessor is an empty sequence, and the next
// one's length counts from it.
TEST(ReadPacked, TakesZerosAndStepsBack) {
  const auto packed =
      ReadPacked(HostArray({2, 5, 0, 0}), HostArray({2, 5, 0, 3}), {5, 8});
  ASSERT_TRUE(packed.ok());
  const std::vector<Sequence> expected = {
      {{0, 2}, {0, 2}}, {{2, 5}, {2, 5}}, {{5, 5}, {5, 5}}, {{5, 5}, {5, 8}}};
  EXPECT_EQ(packed->sequences, expected);
}

TEST(ReadPacked, RefusesMoreRowsThanThereAre) {
  EXPECT_EQ(ReadPacked(HostArray({6}), HostArray({1}), {5, 5}).status().code(),
            Code::kContradiction);
  EXPECT_EQ(
      ReadPacked(HostArray({1}), HostArray({kMax}), {5, 5}).status().code(),
      Code::kContradiction);
  EXPECT_EQ(
      ReadPacked(HostArray({kMax, 0, kMax}), HostArray({1, 1, 1}), {kMax, 5})
          .status()
          .code(),
      Code::kContradiction);
}

TEST(ReadPacked, RefusesListsThatDoNotPair) {
  EXPECT_EQ(ReadPacked(HostArray({}), HostArray({}), {5, 5}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(ReadPacked(nullptr, HostArray({1}), {5, 5}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(
      ReadPacked(HostArray({1, 2}), HostArray({1}), {5, 5}).status().code(),
      Code::kContradiction);
}

TEST(ReadPacked, SaturatesInsteadOfOverflowing) {
  const int64_t half = kMax / 2;
  const auto packed = ReadPacked(HostArray({half, kMax}),
                                 HostArray({half, kMax}), {kMax, kMax});
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->scores, kMax);
  EXPECT_EQ(Product(half, 3), kMax);
  EXPECT_EQ(Product(half, 2), kMax - 1);
}

TEST(DenseBatch, CountsRowsFromEachSequencesOwnStart) {
  const Batch batch = DenseBatch(3, 4, 5);
  EXPECT_EQ(batch.sequences,
            std::vector<Sequence>(3, Sequence{{0, 4}, {0, 5}}));
  EXPECT_EQ(batch.rows, 12);
  EXPECT_EQ(batch.columns, 15);
  EXPECT_EQ(batch.max_rows, 4);
  EXPECT_EQ(batch.max_columns, 5);
  EXPECT_EQ(batch.scores, 60);
}

TEST(DenseBatch, SaturatesInsteadOfOverflowing) {
  const Batch batch = DenseBatch(3, kMax, kMax);
  EXPECT_EQ(batch.rows, kMax);
  EXPECT_EQ(batch.columns, kMax);
  EXPECT_EQ(batch.scores, kMax);
}

TEST(ForgetKeys, LeavesQueriesAlone) {
  auto packed = ReadPacked(HostArray({2, 4}), HostArray({3, 5}), {4, 5});
  ASSERT_TRUE(packed.ok());
  ForgetKeys(*packed);
  EXPECT_EQ(packed->sequences[1], (Sequence{{2, 4}, {}}));
  EXPECT_EQ(packed->rows, 4);
  EXPECT_EQ(packed->scores, 0);
}

TEST(StepOf, IsTheDistanceOfNeighboursOrZero) {
  EXPECT_EQ(StepOf(View({2, 3, 4}, {12, 4, 1})), 1);
  EXPECT_EQ(StepOf(View({2, 3, 4}, {24, 8, 2})), 2);
  EXPECT_EQ(StepOf(View({2, 1, 4}, {4, 999, 1})), 1);  // one entry: no matter
  EXPECT_EQ(StepOf(View({1, 1}, {7, 0})), 1);
  EXPECT_EQ(StepOf(View({0, 3}, {7, 7})), 1);  // none: no matter
  EXPECT_EQ(StepOf(View({2, 3, 4}, {16, 4, 1})), 0);
  EXPECT_EQ(StepOf(View({2, 3}, {1, 2})), 0);
  EXPECT_EQ(StepOf(View({4}, {0})), 0);
}

TEST(RowStatisticSpec, PutsBlocksOneAfterTheOther) {
  const acl::Tensor tensor = View({5, 2, 8}, {16, 8, 1});
  const auto spec = RowStatisticSpec(
      {.name = "max", .tensor = tensor, .heads = 2, .sequences = 3});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->placement, Placement::kBlocks);
  EXPECT_EQ(spec->dims,
            (std::array<int64_t, 4>{3, 2, TensorSpec::kPerSequence, 8}));
}

TEST(RowStatisticSpec, SpacesBlocksAsTheViewIs) {
  const acl::Tensor tensor = View({5, 2, 8}, {32, 16, 2});
  const auto spec = RowStatisticSpec(
      {.name = "max", .tensor = tensor, .heads = 2, .sequences = 3});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->block_step(), 2);
}

TEST(RowStatisticSpec, FollowsTheStridesOfTheSameLayout) {
  const acl::Tensor spread = View({5, 2, 8}, {8, 100, 1});
  const auto spec = RowStatisticSpec({.name = "max",
                                      .tensor = spread,
                                      .heads = 2,
                                      .sequences = 3,
                                      .same_as_input = true});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->placement, Placement::kTensorRows);
  EXPECT_EQ(spec->At(2, 1, 4, 7), 100 + 4 * 8 + 7);
  // Declared otherwise, memory still is [T, N, 8].
  const acl::Tensor declared = View({2, 5, 8}, {40, 8, 1});
  const auto same = RowStatisticSpec({.name = "max",
                                      .tensor = declared,
                                      .heads = 2,
                                      .sequences = 3,
                                      .same_as_input = true});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->At(2, 1, 4, 7), 4 * 16 + 8 + 7);
}

TEST(DenseStatisticSpec, IsWhatItsShapeSays) {
  const acl::Tensor tensor = View({3, 2, 5, 8}, {999, 100, 9, 1});
  const RowStatistic statistic{
      .name = "max", .tensor = tensor, .heads = 2, .sequences = 3};
  const auto spec = DenseStatisticSpec(statistic, 5);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->placement, Placement::kStrided);
  EXPECT_EQ(spec->At(2, 1, 4, 7), 2 * 999 + 100 + 4 * 9 + 7);
  EXPECT_EQ(DenseStatisticSpec(statistic, 4).status().code(),
            Code::kInvalidArgument);
}

TEST(RowStatisticSpec, RefusesStridesThatBlocksCannotFollow) {
  const acl::Tensor tensor = View({5, 2, 8}, {32, 8, 1});
  const auto spec = RowStatisticSpec(
      {.name = "softmaxMaxOut", .tensor = tensor, .heads = 2, .sequences = 3});
  EXPECT_EQ(spec.status().code(), Code::kInvalidArgument);
  EXPECT_NE(spec.status().message().find("softmaxMaxOut"), std::string::npos);
}

}  // namespace
}  // namespace flashacl::ops
