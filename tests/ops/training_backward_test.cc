// SPDX-License-Identifier: Apache-2.0
// The backward's tensors: which belong together, which count as given, and
// which of two mistakes is reported.
#include "ops/training_backward.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/testing/arguments.h"

namespace flashacl::ops::backward {
namespace {

TEST(Table, GradientsHaveTheTypesOfWhatTheyBelongTo) {
  const std::pair<Row, Row> pairs[] = {
      {kDq, kQuery},         {kDk, kKey},         {kDv, kValue},
      {kDqRope, kQueryRope}, {kDkRope, kKeyRope}, {kDsink, kSink}};
  for (const auto& [gradient, of] : pairs) {
    EXPECT_EQ(kTable[gradient].dtypes, kTable[of].dtypes);
    EXPECT_EQ(kTable[gradient].need, kTable[of].need);
  }
}

struct Call : testing::TensorRows {
  Call() : TensorRows(kTable) {
    for (const int row : {kQuery, kDq, kDy, kAttentionIn}) Give(row, {5, 2, 8});
    for (const int row : {kKey, kValue, kDk, kDv}) Give(row, {6, 1, 8});
  }
  void Rope() {
    Give(kQueryRope, {5, 2, 4});
    Give(kDqRope, {5, 2, 4});
    Give(kKeyRope, {6, 1, 4});
    Give(kDkRope, {6, 1, 4});
    Give(kAttenMask, {3, 4}, ACL_BOOL);
  }
  Status Check() const { return CheckTensors(Read(), args).status(); }

  TrainingArgs args = testing::kTrainingArgs;
};

TEST(CheckTensors, TakesWhatTheDocumentDescribes) {
  Call call;
  EXPECT_TRUE(call.Check().ok());
  call.Give(kSink, {2}, ACL_FLOAT);
  EXPECT_TRUE(call.Check().ok());
  call.Rope();
  EXPECT_TRUE(call.Check().ok()) << call.Check().message();
}

TEST(CheckTensors, ReportsTheEarlierOfTwoMistakes) {
  Call call;
  call.Give(kValue, {6, 1, 8}, ACL_FLOAT);
  call.Give(kDq, {5, 2, 9});
  call.args.head_num = 0;
  EXPECT_EQ(call.Check().message().substr(0, 7), "headNum");
  call.args.head_num = 2;
  EXPECT_EQ(call.Check().message().substr(0, 5), "value");
  call.Give(kValue, {6, 1, 8});
  EXPECT_EQ(call.Check().message().substr(0, 5), "dqOut");
}

TEST(CheckTensors, ReadsDenseLayouts) {
  Call call;
  for (const int row : {kQuery, kDq, kDy, kAttentionIn}) {
    call.Give(row, {3, 5, 16});
  }
  for (const int row : {kKey, kValue, kDk, kDv}) call.Give(row, {3, 6, 8});
  EXPECT_FALSE(call.Check().ok());
  call.args.sequences = Sequences::kDense;
  call.args.input_layout = "bsh";  // is read to the letter
  EXPECT_FALSE(call.Check().ok());
  call.args.input_layout = "BSH";
  const auto arguments = call.Read();
  const auto rows = CheckTensors(arguments, call.args);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows->of_query.dim, 8);
  EXPECT_EQ(rows->of_key.heads, 1);
}

TEST(CheckTensors, RopeNeedsItsCompanions) {
  Call call;
  call.Give(kQueryRope, {5, 2, 4});
  EXPECT_EQ(call.Check().code(), Code::kNullArgument);
  call.Rope();
  call.args.keep_prob = 0.5;
  EXPECT_EQ(call.Check().code(), Code::kInvalidArgument);
  call.args = testing::kTrainingArgs;
  call.args.sparse_mode = 6;
  EXPECT_EQ(call.Check().code(), Code::kInvalidArgument);
}

TEST(NothingToWrite, IsWhenAllGradientsAreEmpty) {
  Call call;
  EXPECT_FALSE(NothingToWrite(call.Read()));
  call.Give(kDq, {0, 2, 8});
  call.Give(kDk, {0, 1, 8});
  EXPECT_FALSE(NothingToWrite(call.Read()));
  call.Give(kDv, {0, 1, 8});
  EXPECT_TRUE(NothingToWrite(call.Read()));
  call.Give(kDsink, {2}, ACL_FLOAT);  // without sink not written
  EXPECT_TRUE(NothingToWrite(call.Read()));
  call.Give(kSink, {2}, ACL_FLOAT);
  EXPECT_FALSE(NothingToWrite(call.Read()));
  call.Give(kSink, {0}, ACL_FLOAT);
  call.Give(kDpse, {4});
  EXPECT_FALSE(NothingToWrite(call.Read()));
}

// dpse may be anything at all.
TEST(Table, TakesAnyTypeOfPseGradient) {
  Call call;
  call.Give(kDpse, {4}, ACL_COMPLEX64);
  EXPECT_TRUE(call.Check().ok());
}

}  // namespace
}  // namespace flashacl::ops::backward
