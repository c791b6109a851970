// SPDX-License-Identifier: Apache-2.0
// Query, key and value agree, and strict mode knows the hardware's limits.
#include "ops/training_rows.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

using testing::Dense;
using testing::kTrainingNames;

struct Call {
  acl::Tensor query = Dense({5, 4, 6});
  acl::Tensor key = Dense({7, 2, 6});
  acl::Tensor value = Dense({7, 2, 6});
  Training training = {.names = &kTrainingNames,
                       .head_num = 4,
                       .batch = {.sequences = {{{0, 5}, {0, 7}}}}};

  Status Read(TrainingRows& rows) const {
    return ReadExtents(rows, training.head_num);
  }
  TrainingRows rows() const {
    TrainingRows rows{*training.layout, query, key, value, "keyIn"};
    const Status read = Read(rows);
    EXPECT_TRUE(read.ok()) << read.message();
    return rows;
  }
  Status Check() const {
    TrainingRows rows{*training.layout, query, key, value, "keyIn"};
    return Read(rows);
  }
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

// The same extents, however a layout orders and folds them.
TEST(ReadExtents, UnderstandsEveryLayout) {
  struct Case {
    const Layout& layout;
    std::vector<int64_t> query, key, value;
  };
  for (const Case& c :
       {Case{kBsh, {2, 3, 24}, {2, 5, 12}, {2, 5, 8}},
        Case{kSbh, {3, 2, 24}, {5, 2, 12}, {5, 2, 8}},
        Case{kBsnd, {2, 3, 4, 6}, {2, 5, 2, 6}, {2, 5, 2, 4}},
        Case{kBnsd, {2, 4, 3, 6}, {2, 2, 5, 6}, {2, 2, 5, 4}}}) {
    SCOPED_TRACE(c.layout.name);
    Call call{Dense(c.query), Dense(c.key), Dense(c.value)};
    call.training.layout = &c.layout;
    const TrainingRows rows = call.rows();
    const auto expect = [](const Extents& e, int64_t length, int64_t heads,
                           int64_t dim) {
      EXPECT_EQ(e.sequences, 2);
      EXPECT_EQ(e.rows, length);
      EXPECT_EQ(e.heads, heads);
      EXPECT_EQ(e.dim, dim);
    };
    expect(rows.of_query, 3, 4, 6);
    expect(rows.of_key, 5, 2, 6);
    expect(rows.of_value, 5, 2, 4);
    EXPECT_TRUE(CheckHeadCounts(rows, 4).ok());
    const auto batch = ReadBatch(rows, kNoArrays);
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ(batch->sequences[1], (Sequence{{0, 3}, {0, 5}}));
  }
}

TEST(ReadExtents, FoldedHeadsMustComeOutEven) {
  Call call{Dense({2, 3, 24}), Dense({2, 5, 13}), Dense({2, 5, 8})};
  call.training.layout = &kBsh;
  EXPECT_EQ(call.Check().message(),
            "keyIn: last axis 13 of layout BSH is not a multiple of query's "
            "head dim 24 / headNum 4 = 6");
  call.key = Dense({2, 5, 12});
  call.value = Dense({2, 5, 9});
  EXPECT_EQ(call.Check().message(),
            "value: last axis 9 of layout BSH is not a multiple of 2 heads");
  call.value = Dense({2, 5, 14});
  EXPECT_EQ(call.Check().message(),
            "value: head dim 7 is greater than query head dim 6");
  call.query = Dense({2, 3, 25});
  EXPECT_FALSE(call.Check().ok());
}

// A sequence costs memory when planning, so their number is bounded.
TEST(ReadBatch, TakesTwoMillionDenseSequences) {
  constexpr int64_t kMax = 2 << 20;
  for (const int64_t count : {kMax, kMax + 1}) {
    Call call{Dense({count, 1, 4, 1}), Dense({count, 1, 2, 1}),
              Dense({count, 1, 2, 1})};
    call.training.layout = &kBsnd;
    const auto batch = ReadBatch(call.rows(), kNoArrays);
    EXPECT_EQ(batch.ok(), count == kMax);
    if (!batch.ok()) {
      EXPECT_EQ(batch.status().message(),
                "query: 2097153 sequences, expected at most 2097152");
    }
  }
}

TEST(ReadDenseLayout, KnowsFour) {
  for (const char* name : {"BSH", "SBH", "BSND", "BNSD"}) {
    const auto layout = ReadDenseLayout(name);
    ASSERT_TRUE(layout.ok());
    EXPECT_EQ((*layout)->name, name);
  }
  for (const char* name : {"TND", "bsh", "NSD", ""}) {
    EXPECT_EQ(ReadDenseLayout(name).status().code(), Code::kInvalidArgument);
  }
}

TEST(ReadExtents, NamesTheArgument) {
  Call call;
  EXPECT_TRUE(call.Check().ok());
  call.key = Dense({7, 2, 5});
  EXPECT_EQ(call.Check().message(),
            "keyIn: head dim 5 does not match query head dim 6");
  call.key = Dense({7, 2, 6});
  call.value = Dense({7, 2, 7});
  EXPECT_EQ(call.Check().code(), Code::kInvalidArgument);
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

TEST(CheckHeadCounts, WantsAsManySequences) {
  Call call{Dense({2, 3, 4, 6}), Dense({3, 5, 2, 6}), Dense({3, 5, 2, 6})};
  call.training.layout = &kBsnd;
  EXPECT_EQ(CheckHeadCounts(call.rows(), 4).message(),
            "keyIn: 3 sequences do not match the 2 of query");
  call.key = Dense({2, 5, 2, 6});
  EXPECT_EQ(CheckHeadCounts(call.rows(), 4).message(),
            "value: 3 sequences do not match the 2 of query");
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
      {"2049 sequences",
       [](Call& c) {
         c.query = Dense({1, 5, 4, 6});
         c.key = c.value = Dense({1, 7, 2, 6});
         c.training.layout = &kBsnd;
         c.training.batch = DenseBatch(2049, 1, 1);
         c.training.prefix.resize(2049);
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
      {"sequences", [](Call& c) { c.training.batch.sequences.resize(2049); }},
      {"sequences",
       [](Call& c) {
         c.training.batch.sequences.resize(1025);
         c.training.prefix.resize(1025);
       }},
      {"no keys", [](Call& c) { c.training.batch.sequences[0].keys = {}; }},
      {"no queries",
       [&](Call& c) {
         c.training.batch.sequences[0].queries = {};
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
  call.training.batch.sequences.resize(size_t{2} << 20);
  EXPECT_TRUE(CheckHardwareLimits(call.rows(), call.training).ok());
  call.training.prefix.resize(1025);
  EXPECT_FALSE(CheckHardwareLimits(call.rows(), call.training).ok());
  call.training.prefix.clear();
  call.training.batch.sequences.resize((size_t{2} << 20) + 1);
  EXPECT_FALSE(CheckHardwareLimits(call.rows(), call.training).ok());
  call.training.batch.sequences.resize(1);
  call.query = Dense({5, 4, 769});
  call.key = Dense({7, 2, 769});
  EXPECT_FALSE(CheckHardwareLimits(call.rows(), call.training).ok());
}

}  // namespace
}  // namespace flashacl::ops
