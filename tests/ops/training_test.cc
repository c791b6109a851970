// SPDX-License-Identifier: Apache-2.0
// What is read alike in both directions: numbers, arrays, versions' tables.
#include "ops/training.h"

#include <gtest/gtest.h>

#include "ops/entry.h"
#include "ops/training_forward.h"
#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

using testing::HostArray;

TEST(Without, LacksThoseRowsOnly) {
  using forward::kTable;
  constexpr forward::Table table =
      Without(kTable, {forward::kQueryRope, forward::kSink});
  for (int row = 0; row < forward::kRows; ++row) {
    const bool absent = row == forward::kQueryRope || row == forward::kSink;
    EXPECT_EQ(table[row].need == acl::Need::kAbsent, absent) << row;
    EXPECT_EQ(table[row].name, kTable[row].name);
  }
}

TEST(ReadArrays, StartsAreTheFirstElementsOrZero) {
  const HostArray prefix({3, 4}), some({7, 8}), none({});
  TrainingArgs args = testing::kTrainingArgs;
  args.prefix = prefix;
  args.starts = ArrayPair(some, none);
  Training training;
  ASSERT_TRUE(ReadArrays(args, training).ok());
  EXPECT_EQ(training.prefix, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(training.q_start_idx, 7);
  EXPECT_EQ(training.kv_start_idx, 0);
  args = testing::kTrainingArgs;
  args.starts = ArrayPair(nullptr, some);
  ASSERT_TRUE(ReadArrays(args, training).ok());
  EXPECT_TRUE(training.prefix.empty());
  EXPECT_EQ(training.q_start_idx, 0);
  EXPECT_EQ(training.kv_start_idx, 7);
}

}  // namespace
}  // namespace flashacl::ops
