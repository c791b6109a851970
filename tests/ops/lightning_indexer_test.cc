// SPDX-License-Identifier: Apache-2.0
// aclnnLightningIndexer: by hand, random calls against fp64. Refusals are in
// lightning_indexer_refusal_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/str.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/indexer_call.h"
#include "tests/testing/indexer_case.h"

namespace flashacl::testing {
namespace {

using LightningIndexerTest = RuntimeTest;
using Values = std::vector<double>;
using indexer::SelectionCall;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(LightningIndexerTest, TheDocumentsExample) {
  const ElementTensor query(ACL_FLOAT16, {1, 2, 2}, {1, 0, 0, 1}),
      key(ACL_FLOAT16, {4, 1, 2}, {3, -9, 0, 2, -1, -1, 1, 1}),
      weights(ACL_FLOAT16, {1, 2}, {1, 2}), rows(ACL_INT32, {1}, {1}),
      keys(ACL_INT32, {1}, {4}), indices(ACL_INT32, {1, 1, 3}),
      values(ACL_FLOAT16, {1, 1, 3});
  SelectionCall call{.query = &query,
                     .key = &key,
                     .weights = &weights,
                     .query_lengths = &rows,
                     .key_lengths = &keys,
                     .indices = &indices,
                     .values = &values,
                     .count = 3};
  EXPECT_TRUE(call.Call().Run());
  EXPECT_EQ(indices.Values(), Values({1, 0, 3}));
  EXPECT_EQ(values.Values(), Values({4, 3, 3}));
}

// One row of one head whose scores are the keys times its weight, all of them
// powers of two.
struct OneRow {
  std::vector<double> keys;
  double weight = 1;
  int64_t count = 1;
  int64_t mode = 0;

  Values indices = {}, values = {};

  void Run() {
    const auto k = static_cast<int64_t>(keys.size());
    const ElementTensor query(ACL_BF16, {1, 1, 1, 1}, {1}),
        weights(ACL_FLOAT, {1, 1, 1}, {weight}),
        list(ACL_INT32, {1, 1, 1, count}), scores(ACL_BF16, {1, 1, 1, count});
    ElementTensor key(ACL_BF16, {1, k, 1, 1});
    for (size_t n = 0; n < keys.size(); ++n) {
      key.Set(static_cast<int64_t>(n), keys[n]);
    }
    const SelectionCall call{.query = &query,
                             .key = &key,
                             .weights = &weights,
                             .indices = &list,
                             .values = &scores,
                             .count = count,
                             .mode = mode,
                             .layout = "BSND"};
    ASSERT_TRUE(call.Call().Run());
    indices = list.Values();
    values = scores.Values();
  }
};

TEST_F(LightningIndexerTest, OfEqualScoresTheLowerKeyComesFirst) {
  OneRow row{.keys = Values(1000, 2), .count = 5};
  row.keys[700] = 4;
  row.Run();
  EXPECT_EQ(row.indices, Values({700, 0, 1, 2, 3}));
  // Whatever is 0: negative products, a weight of 0, and its sign.
  for (const double weight : {-1.0, 0.0, 1.0}) {
    OneRow zeros{.keys = {-1, 0, -2, -0.0}, .weight = weight, .count = 6};
    zeros.Run();
    EXPECT_EQ(zeros.indices, Values({0, 1, 2, 3, -1, -1}));
    EXPECT_EQ(zeros.values, Values({0, 0, 0, 0, -kInfinity, -kInfinity}));
  }
  // And the -0 that products too small for fp32 are rounded to.
  OneRow tiny{.keys = {0x1p-100, -1, 0x1p-100, 0}, .weight = -0x1p-100};
  tiny.count = 4;
  tiny.Run();
  EXPECT_EQ(tiny.indices, Values({0, 1, 2, 3}));
}

TEST_F(LightningIndexerTest, ScoresOfEitherSignAndInfinitiesAreInOrder) {
  OneRow row{.keys = {1, kInfinity, 0, 4, -1, 2}, .weight = -1, .count = 6};
  row.Run();
  EXPECT_EQ(row.indices, Values({2, 4, 0, 5, 3, 1}));
  EXPECT_EQ(row.values, Values({0, 0, -1, -2, -4, -kInfinity}));
}

TEST_F(LightningIndexerTest, NanIsAboveAllOthers) {
  const double nan = std::nan("");
  for (const double weight : {1.0, -1.0, 0.0}) {
    OneRow row{.keys = {1, nan, 2, -1, -nan, 0}, .weight = weight, .count = 2};
    row.Run();
    EXPECT_EQ(row.indices, Values({1, 4}));
    EXPECT_TRUE(std::isnan(row.values[0]) && std::isnan(row.values[1]));
  }
  OneRow infinite{.keys = {1, kInfinity, 2}, .weight = 0, .count = 3};
  infinite.Run();
  EXPECT_EQ(infinite.indices, Values({1, 0, 2}));
}

// Heads that fill no block are not there: 0 times what a key holds is not 0.
TEST_F(LightningIndexerTest, AnInfiniteKeyHasAnInfiniteScore) {
  OneRow row{.keys = {1, kInfinity, 2}, .count = 3};
  row.Run();
  EXPECT_EQ(row.indices, Values({1, 2, 0}));
  EXPECT_EQ(row.values, Values({kInfinity, 2, 1}));
}

TEST_F(LightningIndexerTest, CausalFromTheBottomRight) {
  const ElementTensor query(ACL_BF16, {1, 4, 1, 1}, {1, 1, 1, 1}),
      weights(ACL_BF16, {1, 4, 1}, {1, 1, 1, 1}),
      key(ACL_BF16, {1, 2, 1, 1}, {1, 2}), list(ACL_INT32, {1, 4, 1, 2});
  const SelectionCall call{.query = &query,
                           .key = &key,
                           .weights = &weights,
                           .indices = &list,
                           .count = 2,
                           .mode = 3,
                           .layout = "BSND"};
  EXPECT_TRUE(call.Call().Run());
  EXPECT_EQ(list.Values(), Values({-1, -1, -1, -1, 0, -1, 1, 0}));
}

// What selecting leaves out comes back in no way: more keys than any buffer
// keeps, in an order that is the worst for it.
TEST_F(LightningIndexerTest, KeysInAnyOrder) {
  for (const int64_t count : {1, 3, 300}) {
    for (const bool ascending : {true, false}) {
      OneRow row{.keys = Values(6000), .count = count};
      for (size_t n = 0; n < row.keys.size(); ++n) {
        // Exact, and different: bfloat16 has 8 bits.
        const double step = static_cast<double>(n % 128 + 128) *
                            std::exp2(static_cast<double>(n / 128));
        row.keys[ascending ? n : 5999 - n] = step;
      }
      row.Run();
      for (int64_t u = 0; u < count; ++u) {
        ASSERT_EQ(row.indices[static_cast<size_t>(u)],
                  static_cast<double>(ascending ? 5999 - u : u));
      }
    }
  }
}

TEST_F(LightningIndexerTest, NoLayoutIsBsnd) {
  const ElementTensor query(ACL_BF16, {1, 1, 1, 1}, {1}),
      weights(ACL_BF16, {1, 1, 1}, {1}), key(ACL_BF16, {1, 2, 1, 1}, {1, 2}),
      list(ACL_INT32, {1, 1, 1, 1});
  const SelectionCall call{.query = &query,
                           .key = &key,
                           .weights = &weights,
                           .indices = &list,
                           .layout = std::nullopt};
  EXPECT_TRUE(call.Call().Run());
  EXPECT_EQ(list.Values(), Values({1}));
}

TEST_F(LightningIndexerTest, ValuesThatAreNotWantedStayUntouched) {
  const ElementTensor query(ACL_BF16, {1, 1, 1, 1}, {1}),
      weights(ACL_BF16, {1, 1, 1}, {1}), key(ACL_BF16, {1, 2, 1, 1}, {1, 2}),
      list(ACL_INT32, {1, 1, 1, 1}), other(ACL_FLOAT16, {3, 5});
  const std::vector<std::byte> before = other.Image();
  SelectionCall call{.query = &query,
                     .key = &key,
                     .weights = &weights,
                     .indices = &list,
                     .values = &other,
                     .layout = "BSND",
                     .return_values = false};
  EXPECT_TRUE(call.Call().Run());
  EXPECT_EQ(other.Image(), before);
}

TEST_F(LightningIndexerTest, TensorsWithoutElements) {
  // No keys: nothing is seen. No rows: nothing is done.
  const ElementTensor query(ACL_BF16, {1, 2, 1, 1}, {1, 1}),
      weights(ACL_BF16, {1, 2, 1}, {1, 1}), key(ACL_BF16, {1, 0, 1, 1}),
      list(ACL_INT32, {1, 2, 1, 3});
  SelectionCall call{.query = &query,
                     .key = &key,
                     .weights = &weights,
                     .indices = &list,
                     .count = 3,
                     .layout = "BSND"};
  EXPECT_TRUE(call.Call().Run());
  EXPECT_EQ(list.Values(), Values(6, -1));
  const ElementTensor no_query(ACL_BF16, {0, 1, 1}),
      no_weights(ACL_BF16, {0, 1}), keys(ACL_BF16, {2, 1, 1}, {1, 2}),
      none(ACL_INT32, {0}), no_list(ACL_INT32, {0, 1, 3});
  call = {.query = &no_query,
          .key = &keys,
          .weights = &no_weights,
          .query_lengths = &none,
          .key_lengths = &none,
          .indices = &no_list,
          .count = 3};
  EXPECT_TRUE(call.Call().Run());
}

// Lengths that are none, and tables that name no page, cost a wrong answer and
// never a wild read.
TEST_F(LightningIndexerTest, WildLengthsStayInside) {
  const ElementTensor query(ACL_BF16, {3, 1, 1}, {1, 1, 1}),
      weights(ACL_BF16, {3, 1}, {1, 1, 1}), key(ACL_BF16, {2, 1, 1}, {1, 2}),
      list(ACL_INT32, {3, 1, 2});
  for (const double end : {-5.0, 2.0, 1e9, 1e17, -1e17}) {
    for (const aclDataType type : {ACL_INT32, ACL_INT64}) {
      if (type == ACL_INT32 && std::fabs(end) > 2e9) continue;
      const ElementTensor rows(type, {2}, {end, 3}), keys(type, {2}, {1, end});
      SelectionCall call{.query = &query,
                         .key = &key,
                         .weights = &weights,
                         .query_lengths = &rows,
                         .key_lengths = &keys,
                         .indices = &list,
                         .count = 2};
      EXPECT_TRUE(call.Call().Run());
      for (const double index : list.Values()) {
        EXPECT_TRUE(index >= -1 && index < 2) << index;
      }
    }
  }
}

TEST_F(LightningIndexerTest, RandomCallsAreThoseOfFp64) {
  CheckRandomCalls<SeededIndexerCase<IndexerCase::Direction::kForward, false>>(
      400);
}

// Where nothing is rounded, lists and scores are exactly these.
TEST_F(LightningIndexerTest, ExactCallsAreExact) {
  CheckRandomCalls<SeededIndexerCase<IndexerCase::Direction::kForward, true>>(
      400);
}

}  // namespace
}  // namespace flashacl::testing
