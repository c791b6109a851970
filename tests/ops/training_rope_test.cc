// SPDX-License-Identifier: Apache-2.0
// What counts as rope, what it needs and what it excludes.
#include "ops/training_rope.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

// A table of its own: query, rope, key, rope, pse, drop mask, mask.
constexpr acl::Argument kTable[] = {
    {"query", acl::Need::kRequired, acl::kFloats},
    {"queryRope", acl::Need::kOptional, acl::kFloats},
    {"key", acl::Need::kRequired, acl::kFloats},
    {"keyRope", acl::Need::kOptional, acl::kFloats},
    {"pse", acl::Need::kOptional, acl::kFloats},
    {"dropMask", acl::Need::kOptional, acl::kAnyType},
    {"mask", acl::Need::kOptional, acl::kAnyType},
};
constexpr TrainingTable kRows{.names = testing::kTrainingNames,
                              .query = 0,
                              .query_rope = 1,
                              .key = 2,
                              .key_rope = 3,
                              .pse = 4,
                              .drop_mask = 5,
                              .atten_mask = 6};

struct Call : testing::TensorRows {
  Call() : TensorRows(kTable) {
    Give(0, {5, 2, 8});
    Give(2, {6, 1, 8});
  }
  void Rope() {
    Give(1, {5, 2, 4});
    Give(3, {6, 1, 4});
    Give(6, {3, 4}, ACL_BOOL);
  }
  Status Check(double keep = 1, int64_t mode = 0) const {
    TrainingArgs args = testing::kTrainingArgs;
    args.keep_prob = keep;
    args.sparse_mode = mode;
    return CheckRope(Read(), kRows, args);
  }
};

TEST(HasRope, NeedsChannelsNotRows) {
  Call call;
  EXPECT_FALSE(HasRope(call.Read(), kRows));
  call.Give(1, {0});
  EXPECT_FALSE(HasRope(call.Read(), kRows));
  call.Give(1, {5, 2, 0});
  EXPECT_FALSE(HasRope(call.Read(), kRows));
  call.Give(1, {0, 2, 4});
  EXPECT_TRUE(HasRope(call.Read(), kRows));
}

TEST(CheckRope, NamesWhatIsMissing) {
  Call call;
  EXPECT_TRUE(call.Check(0.5, 6).ok());  // without rope it excludes nothing
  call.Give(1, {5, 2, 4});
  EXPECT_EQ(call.Check().message(),
            "The keyRope cannot be nullptr when rope is given.");
  call.Give(3, {6, 1, 4});
  EXPECT_EQ(call.Check().message(),
            "The mask cannot be nullptr when rope is given.");
  for (const std::vector<int64_t>& none : {std::vector<int64_t>{}, {0}}) {
    call.Give(6, none, ACL_BOOL);
    EXPECT_EQ(call.Check().message(),
              "The mask cannot be nullptr when rope is given.");
  }
  call.Give(6, {0, 4}, ACL_BOOL);  // of sequences without queries
  EXPECT_TRUE(call.Check().ok());
  call.Rope();
  EXPECT_TRUE(call.Check().ok());
}

TEST(CheckRope, NamesWhatDoesNotGoWithIt) {
  Call call;
  call.Rope();
  EXPECT_EQ(call.Check(0.5).message(), "keepProb: 0.5, expected 1 with rope");
  EXPECT_TRUE(call.Check(1 - 1e-12).ok());  // a float of 1
  EXPECT_EQ(call.Check(1, 6).code(), Code::kInvalidArgument);
  call.Give(4, {4});
  EXPECT_EQ(call.Check().message(), "pse: given, but there is none with rope");
}

TEST(CheckRope, WantsShapesOfTheTensorsItExtends) {
  const auto refuses = [](int row, const std::vector<int64_t>& dims) {
    Call call;
    call.Rope();
    call.Give(row, dims);
    return call.Check().code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refuses(1, {5, 2, 9}));
  EXPECT_TRUE(refuses(1, {5, 1, 4}));
  EXPECT_TRUE(refuses(3, {5, 1, 4}));
  EXPECT_TRUE(refuses(3, {6, 1, 3}));
  EXPECT_TRUE(refuses(1, {5, 8}));
  Call call;
  call.Rope();
  call.Give(3, {6, 1, 4}, ACL_FLOAT);
  EXPECT_EQ(call.Check().message(),
            "keyRope: data type FLOAT, expected BFLOAT16");
}

TEST(StateRope, AddsChannels) {
  Call call;
  call.Rope();
  Training training{.names = &kRows.names, .head_num = 2};
  training.batch.sequences.resize(3);
  AttentionProblem problem;
  StateRope(call.Read(), kRows, training, problem);
  EXPECT_EQ(problem.rope_dim, 4);
  EXPECT_EQ(problem[Slot::kQueryRope].At(2, 4, 1, 3), 4 * 8 + 4 + 3);
  EXPECT_EQ(problem[Slot::kKeyRope].At(2, 5, 0, 3), 5 * 4 + 3);
  EXPECT_FALSE(problem.has(Slot::kGradKeyRope));
}

}  // namespace
}  // namespace flashacl::ops
