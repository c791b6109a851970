// SPDX-License-Identifier: Apache-2.0
// Query, key and value agree, and strict mode knows the hardware's limits.
#include "ops/training_rows.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace flashacl::ops {
namespace {

constexpr TrainingNames kNames{"pse", "keepProb", "preTokens", "nextTokens",
                               "sparseMode"};

acl::Tensor Dense(std::vector<int64_t> dims) {
  acl::Tensor tensor;
  tensor.acl_dtype = ACL_FLOAT;
  tensor.rank = dims.size();
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    tensor.dims[axis] = dims[axis];
    tensor.strides[axis] = stride;
    stride *= dims[axis];
  }
  return tensor;
}

struct Call {
  acl::Tensor query = Dense({5, 4, 6});
  acl::Tensor key = Dense({7, 2, 6});
  acl::Tensor value = Dense({7, 2, 6});
  Training training = {.names = &kNames,
                       .head_num = 4,
                       .packed = {.sequences = {{{0, 5}, {0, 7}}}}};

  TrainingRows rows() const { return {query, key, value, "keyIn"}; }
};

TEST(StateRows, BringsTensorsIntoOrder) {
  Call call;
  call.value = Dense({7, 2, 3});
  AttentionProblem problem;
  StateRows(call.rows(), call.training, problem);
  EXPECT_EQ(problem.heads, 4);
  EXPECT_EQ(problem.kv_heads, 2);
  EXPECT_EQ(problem.qk_dim, 6);
  EXPECT_EQ(problem.v_dim, 3);
  EXPECT_EQ(problem[Slot::kQuery].At(0, 4, 3, 5), 4 * 24 + 3 * 6 + 5);
  EXPECT_EQ(problem[Slot::kValue].At(0, 6, 1, 2), 6 * 6 + 3 + 2);
}

// Without heads there are no rows either, and nothing to write.
TEST(StateRows, KeysWithoutHeadsHaveNoRows) {
  Call call;
  call.key = Dense({7, 0, 6});
  call.value = Dense({7, 0, 6});
  AttentionProblem problem;
  StateRows(call.rows(), call.training, problem);
  EXPECT_EQ(problem.kv_heads, 1);
  EXPECT_EQ(problem[Slot::kKey].dims[1], 0);
  EXPECT_TRUE(CheckHeadCounts(call.rows(), 4).ok());
}

TEST(CheckHeadDims, NamesTheArgument) {
  Call call;
  EXPECT_TRUE(CheckHeadDims(call.rows()).ok());
  call.key = Dense({7, 2, 5});
  EXPECT_EQ(CheckHeadDims(call.rows()).message(),
            "keyIn: head dim 5 does not match query head dim 6");
  call.key = Dense({7, 2, 6});
  call.value = Dense({7, 2, 7});
  EXPECT_EQ(CheckHeadDims(call.rows()).code(), Code::kInvalidArgument);
}

TEST(CheckHeadCounts, WantsGroupsOfOneSize) {
  Call call;
  EXPECT_TRUE(CheckHeadCounts(call.rows(), 4).ok());
  EXPECT_EQ(CheckHeadCounts(call.rows(), 3).code(), Code::kContradiction);
  call.key = Dense({7, 3, 6});
  call.value = Dense({7, 3, 6});
  EXPECT_EQ(CheckHeadCounts(call.rows(), 4).message(),
            "keyIn: 3 heads do not divide the 4 heads of query");
  call.key = Dense({7, 2, 6});
  EXPECT_FALSE(CheckHeadCounts(call.rows(), 4).ok());
  call.value = Dense({8, 2, 6});
  EXPECT_FALSE(CheckHeadCounts(call.rows(), 4).ok());
}

// Each documented limit alone is refused, the plain call is not.
TEST(CheckHardwareLimits, AreThoseOfTheDocuments) {
  using Change = std::function<void(Call&)>;
  const acl::Tensor pse = Dense({1});
  const std::vector<std::pair<std::string, Change>> limits = {
      {"head dim",
       [](Call& c) {
         c.query = Dense({5, 4, 513});
         c.key = c.value = Dense({7, 2, 513});
       }},
      {"rows",
       [](Call& c) {
         c.query = Dense({(1 << 20) + 1, 4, 6});
       }},
      {"rows",
       [](Call& c) {
         c.key = Dense({(1 << 20) + 1, 2, 6});
       }},
      {"heads", [](Call& c) { c.training.head_num = 257; }},
      {"sequences", [](Call& c) { c.training.packed.sequences.resize(2049); }},
      {"sequences",
       [](Call& c) {
         c.training.packed.sequences.resize(1025);
         c.training.prefix.resize(1025);
       }},
      {"no keys", [](Call& c) { c.training.packed.sequences[0].keys = {}; }},
      {"no queries",
       [&](Call& c) {
         c.training.packed.sequences[0].queries = {};
         c.training.pse = &pse;
       }},
      {"head dim 5 differs",
       [](Call& c) {
         c.value = Dense({7, 2, 5});
       }},
  };
  const Call plain;
  EXPECT_TRUE(CheckHardwareLimits(plain.rows(), plain.training).ok());
  for (const auto& [words, change] : limits) {
    SCOPED_TRACE(words);
    Call call;
    change(call);
    const Status status = CheckHardwareLimits(call.rows(), call.training);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(words), std::string::npos)
        << status.message();
  }
}

TEST(CheckHardwareLimits, BackwardHasWiderOnes) {
  Call call;
  call.training.backward = true;
  call.query = Dense({5, 4, 768});
  call.key = Dense({7, 2, 768});
  EXPECT_TRUE(CheckHardwareLimits(call.rows(), call.training).ok());
  call.query = Dense({5, 4, 769});
  EXPECT_FALSE(CheckHardwareLimits(call.rows(), call.training).ok());
}

}  // namespace
}  // namespace flashacl::ops
