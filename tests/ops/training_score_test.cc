// SPDX-License-Identifier: Apache-2.0
// Biases are found where their shape says, and dropout has enough bits.
#include "ops/training_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

using testing::Dense;
using testing::kTrainingNames;

// Two sequences: 3 x 4 and 2 x 5 scores.
Training Call(const acl::Tensor* pse, int64_t pse_type) {
  return {.names = &kTrainingNames,
          .head_num = 2,
          .batch = {.sequences = {{{0, 3}, {0, 4}}, {{3, 5}, {4, 9}}},
                    .rows = 5,
                    .columns = 9,
                    .max_rows = 3,
                    .max_columns = 5,
                    .scores = 22},
          .pse = pse,
          .pse_type = pse_type};
}

TEST(LowerPse, NothingGivenIsNoBias) {
  AttentionProblem problem;
  EXPECT_TRUE(LowerPse(Call(nullptr, 1), problem).ok());
  EXPECT_EQ(problem.score.bias, Score::Bias::kNone);
  EXPECT_FALSE(problem.has(Slot::kBias));
}

TEST(LowerPse, TypesSayWhereTheBiasEnters) {
  const acl::Tensor every = Dense({44}, ACL_FLOAT16);
  const acl::Tensor slopes = Dense({2}, ACL_FLOAT);
  const std::pair<int64_t, Score::Bias> types[] = {
      {0, Score::Bias::kAfterScale},
      {1, Score::Bias::kBeforeScale},
      {2, Score::Bias::kAlibi},
      {3, Score::Bias::kAlibiSqrt}};
  for (const auto& [type, bias] : types) {
    AttentionProblem problem;
    Training call = Call(type < 2 ? &every : &slopes, type);
    call.q_start_idx = 3;
    call.kv_start_idx = 4;
    ASSERT_TRUE(LowerPse(call, problem).ok()) << type;
    EXPECT_EQ(problem.score.bias, bias);
    EXPECT_EQ(problem.score.query_start, type < 2 ? 0 : 3);
    EXPECT_EQ(problem.score.key_start, type < 2 ? 0 : 4);
    EXPECT_FALSE(problem.score.starts_only_first);
  }
}

TEST(PseGrid, FollowsEachShape) {
  const auto every = PseGrid(Call(nullptr, 1), Dense({44}, ACL_FLOAT));
  ASSERT_TRUE(every.ok());
  EXPECT_EQ(every->placement, Placement::kBlocks);
  EXPECT_EQ(every->dims[2], TensorSpec::kPerSequence);
  const auto shared = PseGrid(Call(nullptr, 1), Dense({18}, ACL_FLOAT));
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->dims[2], 1);
  const auto stored =
      PseGrid(Call(nullptr, 1), Dense({1, 2, 1024, 5}, ACL_FLOAT));
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored->placement, Placement::kDiagonal);
  EXPECT_EQ(stored->strides[0], 0);
  const auto slopes = PseGrid(Call(nullptr, 2), Dense({2, 2}, ACL_FLOAT));
  ASSERT_TRUE(slopes.ok());
  EXPECT_EQ(slopes->At(1, 1), 3);
}

// Dense: of two sequences of 3 x 5 scores.
TEST(PseGrid, FollowsEachDenseShape) {
  Training call = Call(nullptr, 1);
  call.layout = &kBsh;
  call.batch = DenseBatch(2, 3, 5);
  const auto at = [&](std::vector<int64_t> dims) -> int64_t {
    const auto grid = PseGrid(call, Dense(dims));
    return grid.ok() ? grid->At(1, 1, 2, 4) : -1;
  };
  EXPECT_EQ(at({2, 2, 3, 5}), 30 + 15 + 10 + 4);
  EXPECT_EQ(at({1, 2, 3, 5}), 15 + 10 + 4);
  EXPECT_EQ(at({2, 2, 1, 5}), 10 + 5 + 4);
  EXPECT_EQ(at({1, 2, 1, 5}), 5 + 4);
  EXPECT_EQ(at({2, 2, 3, 4}), -1);
  EXPECT_EQ(at({2, 2, 2, 5}), -1);
  EXPECT_EQ(at({2, 1, 3, 5}), -1);
  EXPECT_EQ(at({3, 2, 3, 5}), -1);
  EXPECT_EQ(at({60}), -1);
  const auto stored = PseGrid(call, Dense({1, 2, 1024, 5}, ACL_FLOAT));
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored->placement, Placement::kDiagonal);
  // With as many queries nothing is missing.
  call.batch = DenseBatch(2, 1024, 5);
  const auto whole = PseGrid(call, Dense({1, 2, 1024, 5}, ACL_FLOAT));
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->placement, Placement::kStrided);
}

// Forward's dense layouts have distances only where scores are square.
TEST(LowerPse, DenseSlopesAreForSquares) {
  const acl::Tensor slopes = Dense({2}, ACL_FLOAT);
  Training call = Call(&slopes, 2);
  call.layout = &kBsnd;
  const auto lowers = [&](int64_t rows, int64_t columns) {
    call.batch = DenseBatch(2, rows, columns);
    AttentionProblem problem;
    return LowerPse(call, problem).ok();
  };
  EXPECT_TRUE(lowers(3, 3));
  EXPECT_FALSE(lowers(3, 5));
  call.backward = true;
  EXPECT_TRUE(lowers(3, 5));
}

TEST(CheckPse, KnowsTypesAndWhatTheyNeed) {
  const acl::Tensor bias = Dense({44}, ACL_FLOAT16);
  const acl::Tensor slopes = Dense({2}, ACL_FLOAT);
  const auto code = [](const acl::Tensor* pse, int64_t type, bool empty) {
    return CheckPse(Call(pse, type), ACL_FLOAT16, empty).code();
  };
  EXPECT_EQ(code(&bias, 4, false), Code::kContradiction);
  EXPECT_EQ(code(&bias, -1, false), Code::kContradiction);
  for (const int64_t type : {0, 1}) {
    EXPECT_EQ(code(&bias, type, false), Code::kOk);
    EXPECT_EQ(code(&slopes, type, false), Code::kInvalidArgument);
  }
  for (const int64_t type : {2, 3}) {
    EXPECT_EQ(code(&slopes, type, false), Code::kOk);
    EXPECT_EQ(code(&bias, type, false), Code::kInvalidArgument);
    EXPECT_EQ(code(nullptr, type, true), Code::kInvalidArgument);
  }
  EXPECT_EQ(code(nullptr, 1, false), Code::kOk);
  EXPECT_EQ(code(nullptr, 0, true), Code::kOk);
  EXPECT_EQ(code(nullptr, 0, false), Code::kInvalidArgument);
}

TEST(PseGrid, RefusesOtherShapes) {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{43},
                                           {2, 2},
                                           {2, 2, 3, 5},
                                           {2, 1, 1024, 5},
                                           {3, 2, 1024, 5},
                                           {1, 2, 1024, 4}}) {
    const auto grid = PseGrid(Call(nullptr, 1), Dense(dims));
    EXPECT_EQ(grid.status().code(), Code::kContradiction) << dims.size();
  }
}

// Only causal masks of 1024 rows or more go with the stored rows.
TEST(LowerPse, StoredRowsNeedACausalMask) {
  const acl::Tensor pse = Dense({1, 2, 1024, 1100}, ACL_FLOAT);
  const acl::Tensor mask = Dense({2048, 2048}, ACL_BOOL);
  Training call = Call(&pse, 1);
  call.batch = {.sequences = {{{0, 1100}, {0, 1100}}},
                .rows = 1100,
                .columns = 1100,
                .max_rows = 1100,
                .max_columns = 1100,
                .scores = 1100 * 1100};
  const auto lowers = [&call] {
    AttentionProblem problem;
    return LowerPse(call, problem).ok();
  };
  EXPECT_FALSE(lowers());
  call.atten_mask = &mask;
  for (const int64_t mode : {2, 3}) {
    call.sparse_mode = mode;
    EXPECT_TRUE(lowers()) << mode;
  }
  for (const int64_t mode : {1, 4, 6}) {
    call.sparse_mode = mode;
    EXPECT_FALSE(lowers()) << mode;
  }
  call.sparse_mode = 0;
  call.pre_tokens = 1100;
  EXPECT_TRUE(lowers());
  call.pre_tokens = 1099;
  EXPECT_FALSE(lowers());
  call.pre_tokens = 1100;
  call.next_tokens = 1;
  EXPECT_FALSE(lowers());
}

// Backward also takes short sequences whose last row sees what is stored.
TEST(LowerPse, StoredRowsReachSoFar) {
  const acl::Tensor pse = Dense({1, 2, 1024, 1100}, ACL_FLOAT);
  const acl::Tensor mask = Dense({2048, 2048}, ACL_BOOL);
  const auto lowers = [&](int64_t rows, int64_t columns, bool backward) {
    Training call = Call(&pse, 1);
    call.backward = backward;
    call.atten_mask = &mask;
    call.sparse_mode = 3;
    call.batch.sequences = {{{0, rows}, {0, columns}}, {{0, 9}, {0, 1100}}};
    call.batch.sequences[1].queries.last = 1100;
    call.batch.max_rows = call.batch.max_columns = 1100;
    AttentionProblem problem;
    return LowerPse(call, problem).ok();
  };
  EXPECT_TRUE(lowers(50, 1073, true));
  EXPECT_FALSE(lowers(50, 1073, false));
  EXPECT_FALSE(lowers(50, 1074, true));
  EXPECT_FALSE(lowers(1025, 1026, true));
  EXPECT_TRUE(lowers(1025, 1025, false));
}

TEST(CheckKeepProb, IsAProbabilityThatKeepsSomething) {
  Training call = Call(nullptr, 1);
  for (const double keep : {1.0, 0.5, 1e-30, 1 + 1e-12}) {
    call.keep_prob = keep;
    EXPECT_TRUE(CheckKeepProb(call).ok()) << keep;
  }
  for (const double keep : {0.0, -0.5, 1.0001, 1e-60, std::nan("")}) {
    call.keep_prob = keep;
    EXPECT_EQ(CheckKeepProb(call).code(), Code::kContradiction) << keep;
  }
}

TEST(LowerDropMask, CountsBits) {
  for (const auto& [bytes, enough] :
       {std::pair<int64_t, bool>{5, false}, {6, true}, {16, true}}) {
    const acl::Tensor mask = Dense({bytes}, ACL_UINT8);
    Training call = Call(nullptr, 1);
    call.drop_mask = &mask;
    call.keep_prob = 0.5;
    AttentionProblem problem;
    EXPECT_EQ(LowerDropMask(call, problem).ok(), enough) << bytes;
    EXPECT_EQ(problem.has(Slot::kKeep), enough);
    EXPECT_EQ(problem.score.keep_probability, enough ? 0.5f : 1.0f);
  }
}

}  // namespace
}  // namespace flashacl::ops
