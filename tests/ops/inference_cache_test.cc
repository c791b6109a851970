// SPDX-License-Identifier: Apache-2.0
// One tensor, a list or pages: told apart by shapes, all in canonical order.
#include "ops/inference_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

using Rows = KvSource::Rows;

acl::Entry Dense(const std::vector<int64_t>& dims,
                 aclDataType type = ACL_FLOAT16) {
  acl::Entry entry;
  entry.tensor = std::make_shared<acl::Tensor>(testing::Dense(dims, type));
  return entry;
}

constexpr CacheTerms kTerms{
    .layout = kBnsd, .sequences = 2, .kv_heads = 3, .heads = {.dim = 4}};

TEST(ReadCache, OneTensorForAllSequences) {
  const std::vector<acl::Entry> keys{Dense({2, 3, 7, 4})};
  const auto cache = ReadCache(keys, keys, kTerms);
  ASSERT_TRUE(cache.ok()) << cache.status().message();
  EXPECT_EQ(cache->source.rows, Rows::kStrided);
  EXPECT_EQ(cache->key.dims, (std::array<int64_t, 4>{2, 7, 3, 4}));
  EXPECT_EQ(cache->Room(0), 7);
  EXPECT_EQ(cache->Room(1), 7);
  EXPECT_EQ(cache->key.At(1, 2, 1, 3), ((1 * 3 + 1) * 7 + 2) * 4 + 3);
}

TEST(ReadCache, ATensorPerSequence) {
  const std::vector<acl::Entry> keys{Dense({1, 3, 7, 4}), Dense({1, 3, 9, 4})};
  const auto cache = ReadCache(keys, keys, kTerms);
  ASSERT_TRUE(cache.ok()) << cache.status().message();
  EXPECT_EQ(cache->source.rows, Rows::kList);
  EXPECT_EQ(cache->source.key_list.size(), 2u);
  EXPECT_EQ(cache->source.value_list[1].dims[1], 9);
  EXPECT_EQ(cache->Room(0), 7);
  EXPECT_EQ(cache->Room(1), 9);
  EXPECT_EQ(cache->max_columns, 9);
  EXPECT_EQ(cache->key.dims[1], 9);
}

// One sequence in a list of one is one tensor either way.
TEST(ReadCache, OneSequenceIsOneTensor) {
  CacheTerms terms = kTerms;
  terms.sequences = 1;
  const std::vector<acl::Entry> keys{Dense({1, 3, 7, 4})};
  EXPECT_EQ(ReadCache(keys, keys, terms)->source.rows, Rows::kStrided);
}

TEST(ReadCache, PagesByRank) {
  const acl::Entry table = Dense({2, 5}, ACL_INT32);
  CacheTerms terms = kTerms;
  terms.block_table = table.tensor.get();
  terms.block_size = 16;
  for (const auto& dims :
       {std::vector<int64_t>{8, 16, 12}, std::vector<int64_t>{8, 3, 16, 4}}) {
    const std::vector<acl::Entry> keys{Dense(dims)};
    const auto cache = ReadCache(keys, keys, terms);
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    EXPECT_EQ(cache->source.rows, Rows::kPaged);
    EXPECT_EQ(cache->source.page_rows, 16);
    EXPECT_EQ(cache->key.dims, (std::array<int64_t, 4>{8, 16, 3, 4}));
    EXPECT_EQ(cache->Room(1), 80);
    EXPECT_EQ(cache->block_table.At(1, 2), 7);
  }
  const std::vector<acl::Entry> heads{Dense({8, 3, 16, 4})};
  terms.layout = kBsnd;
  EXPECT_FALSE(ReadCache(heads, heads, terms).ok());
}

TEST(ReadCache, PagesOfEightBitsAreMultiplesOf32) {
  const acl::Entry table = Dense({2, 5}, ACL_INT32);
  CacheTerms terms = kTerms;
  terms.block_table = table.tensor.get();
  terms.block_size = 48;
  const std::vector<acl::Entry> f16{Dense({8, 48, 12})};
  EXPECT_TRUE(ReadCache(f16, f16, terms).ok());
  const std::vector<acl::Entry> int8{Dense({8, 48, 12}, ACL_INT8)};
  EXPECT_FALSE(ReadCache(int8, int8, terms).ok());
}

TEST(ReadCache, RefusesWhatDoesNotFit) {
  const std::vector<acl::Entry> good{Dense({2, 3, 7, 4})};
  const std::vector<std::vector<acl::Entry>> bad{
      {},
      {Dense({2, 3, 7, 5})},
      {Dense({2, 2, 7, 4})},
      {Dense({3, 3, 7, 4})},
      {Dense({2, 7, 12})},
      {Dense({0})},
      {Dense({1, 3, 7, 4}), Dense({2, 3, 7, 4})},
      {Dense({2, 3, 7, 4}), Dense({2, 3, 7, 4}), Dense({2, 3, 7, 4})},
  };
  for (const auto& keys : bad) {
    EXPECT_EQ(ReadCache(keys, keys, kTerms).status().code(),
              Code::kContradiction);
    EXPECT_FALSE(ReadCache(good, keys, kTerms).ok());
  }
}

}  // namespace
}  // namespace flashacl::ops
