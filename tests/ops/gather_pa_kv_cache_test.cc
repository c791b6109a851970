// SPDX-License-Identifier: Apache-2.0
// aclnnGatherPaKvCache: by hand, and random calls against a plain loop.
// Refusals are in gather_pa_kv_cache_refusal_test.cc.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/str.h"
#include "tests/testing/page_call.h"
#include "tests/testing/random_tensors.h"

namespace flashacl::testing {
namespace {

using namespace page;  // NOLINT: calls and pages
using Kind = Pages::Kind;
using Values = std::vector<double>;
using GatherPaKvCacheTest = RuntimeTest;

// Three blocks of two rows, which hold 1 to 6; two sequences of two blocks.
struct Small {
  ElementTensor key_cache{ACL_FLOAT16, {3, 2, 1, 1}, {1, 2, 3, 4, 5, 6}};
  ElementTensor value_cache{
      ACL_FLOAT16, {3, 2, 1, 1}, {11, 12, 13, 14, 15, 16}};
  ElementTensor tables{ACL_INT32, {2, 2}, {2, 0, 1, 2}};
  ElementTensor lengths{ACL_INT32, {2}, {3, 2}};
  ElementTensor key{ACL_FLOAT16, {6, 1, 1}, {-1, -1, -1, -1, -1, -1}};
  ElementTensor value{ACL_FLOAT16, {6, 1, 1}, {-1, -1, -1, -1, -1, -1}};

  GatherCall Call() const {
    return {&key_cache, &value_cache, &tables, &lengths, &key, &value};
  }
  Values Keys(const GatherCall& call) const {
    EXPECT_TRUE(call.Run());
    return key.Values();
  }
};

TEST_F(GatherPaKvCacheTest, SequencesLieOneAfterTheOther) {
  const Small small;
  EXPECT_EQ(small.Keys(small.Call()), (Values{5, 6, 1, 3, 4, -1}));
  EXPECT_EQ(small.value.Values(), (Values{15, 16, 11, 13, 14, -1}));
}

TEST_F(GatherPaKvCacheTest, LengthsMayBeEnds) {
  const Small small;
  GatherCall call = small.Call();
  const ElementTensor ends(ACL_INT32, {3}, {0, 3, 5});
  call.lengths = &ends;
  call.cumulative = true;
  EXPECT_EQ(small.Keys(call), (Values{5, 6, 1, 3, 4, -1}));
}

TEST_F(GatherPaKvCacheTest, EndsThatDoNotAscendCountAsThoseBefore) {
  const struct {
    Values ends, keys;
  } kCases[] = {
      {{1, 3, 5}, {-1, 5, 6, 3, 4, -1}},   // nothing before the first
      {{0, 3, 2}, {5, 6, 1, -1, -1, -1}},  // the second has no rows
      {{-4, 1, 9}, {5, 3, 4, 5, 6, -1}},   // four, in two blocks
      {{7, 8, 9}, {-1, -1, -1, -1, -1, -1}},
  };
  for (const auto& one : kCases) {
    const Small small;
    ElementTensor ends(ACL_INT32, {3});
    for (size_t n = 0; n < 3; ++n) {
      ends.Set(static_cast<int64_t>(n), one.ends[n]);
    }
    GatherCall call = small.Call();
    call.lengths = &ends;
    call.cumulative = true;
    EXPECT_EQ(small.Keys(call), one.keys);
  }
}

TEST_F(GatherPaKvCacheTest, LengthsEndWhereTableAndResultsDo) {
  Small small;
  // Five rows of four that two blocks have, so that the fifth keeps its bits.
  SetIntegers(small.lengths, {5, 3});
  EXPECT_EQ(small.Keys(small.Call()), (Values{5, 6, 1, 2, -1, 3}));
  Small other;
  SetIntegers(other.lengths, {-3, 2147483647});
  EXPECT_EQ(other.Keys(other.Call()), (Values{3, 4, 5, 6, -1, -1}));
  Small wide;
  const ElementTensor tables(ACL_INT64, {2, 2}, {2, 0, 1, 2});
  const ElementTensor lengths(ACL_INT64, {2});
  SetIntegers(lengths, {INT64_MIN, INT64_MAX});
  GatherCall call = wide.Call();
  call.tables = &tables;
  call.lengths = &lengths;
  EXPECT_EQ(wide.Keys(call), (Values{3, 4, 5, 6, -1, -1}));
}

TEST_F(GatherPaKvCacheTest, BlocksThatAreNoneKeepTheirRows) {
  Small small;
  SetIntegers(small.tables, {-1, 1, 3, 0});
  SetIntegers(small.lengths, {3, 3});
  EXPECT_EQ(small.Keys(small.Call()), (Values{-1, -1, 3, -1, -1, 1}));
}

TEST_F(GatherPaKvCacheTest, OffsetsAreWholeBlocksRoundedDown) {
  const struct {
    std::vector<int64_t> offsets;
    Values keys;
  } kCases[] = {
      {{0, 1}, {5, 6, 1, 3, 4, -1}},
      {{2, 3}, {1, 2, -1, 5, 6, -1}},  // the first has one block left
      {{4, 0}, {-1, -1, -1, 3, 4, -1}},
      {{-1, -2}, {-1, -1, 5, -1, -1, -1}},
      {{INT64_MIN, INT64_MAX}, {-1, -1, -1, -1, -1, -1}},
  };
  for (const auto& one : kCases) {
    const Small small;
    const ElementTensor offsets(ACL_INT64, {2}),
        lengths(ACL_INT64, {2}, {3, 2}),
        tables(ACL_INT64, {2, 2}, {2, 0, 1, 2});
    SetIntegers(offsets, one.offsets);
    GatherCall call = small.Call();
    call.tables = &tables;
    call.lengths = &lengths;
    call.offsets = &offsets;
    EXPECT_EQ(small.Keys(call), one.keys);
  }
}

TEST_F(GatherPaKvCacheTest, TablesAndLengthsAreReadWhenTheTaskRuns) {
  Small small;
  const ElementwiseCall call = small.Call();
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(call.Prepare(&size, &executor), 0);
  SetIntegers(small.tables, {0, 1, 2, 2});
  SetIntegers(small.lengths, {1, 1});
  ASSERT_EQ(EntryPointsOf(call.name).phase_two(nullptr, 0, executor, nullptr),
            0);
  ASSERT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_EQ(small.key.Values(), (Values{1, 5, -1, -1, -1, -1}));
}

TEST_F(GatherPaKvCacheTest, WithoutElementsNothingIsDone) {
  const Small small;
  const ElementTensor no_rows(ACL_FLOAT16, {0, 1, 1}),
      no_blocks(ACL_FLOAT16, {0, 2, 1, 1}),
      empty_blocks(ACL_FLOAT16, {3, 0, 1, 1}), no_tables(ACL_INT32, {0, 2}),
      no_lengths(ACL_INT32, {0}), no_columns(ACL_INT32, {2, 0});
  GatherCall call = small.Call();
  call.key = call.value = &no_rows;
  EXPECT_TRUE(call.Run());
  call = small.Call();
  for (const ElementTensor* const cache : {&no_blocks, &empty_blocks}) {
    call.key_cache = call.value_cache = cache;
    EXPECT_TRUE(call.Run());
  }
  call = small.Call();
  call.tables = &no_tables;
  call.lengths = &no_lengths;
  EXPECT_TRUE(call.Run());
  call = small.Call();
  call.tables = &no_columns;
  EXPECT_TRUE(call.Run());
  EXPECT_EQ(small.key.Values(), Values(6, -1));
  // Values go on without channels of keys.
  const ElementTensor thin(ACL_FLOAT16, {3, 2, 1, 0}),
      thin_key(ACL_FLOAT16, {6, 1, 0});
  call = small.Call();
  call.key_cache = &thin;
  call.key = &thin_key;
  EXPECT_TRUE(call.Run());
  EXPECT_EQ(small.value.Values(), (Values{15, 16, 11, 13, 14, -1}));
}

// A random call, its tensors filled, and what it should leave.
class RandomCall {
 public:
  explicit RandomCall(uint64_t seed) : random_(seed), tensors_(random_) {
    keys_ = RandomPages(random_, {Kind::kRows, Kind::kNz});
    values_ = ValuesBeside(keys_, random_);
    if (keys_.nz()) {  // heads and channels are one axis
      for (Pages* part : {&keys_, &values_}) {
        part->channels *= part->heads;
        part->heads = 1;
      }
    }
    rows_ = Sized(random_, 1, 60);
    MakeSequences();
    key_cache_ = Filled({keys_.type, keys_.CacheDims()}, true);
    value_cache_ = Filled({values_.type, values_.CacheDims()}, true);
    key_ = Filled({keys_.type, RowDims(keys_)}, false);
    value_ = Filled({values_.type, RowDims(values_)}, false);
  }

  void Check() {
    const Expected keys = Read(keys_, *key_cache_, *key_);
    const Expected values = Read(values_, *value_cache_, *value_);
    GatherCall call{key_cache_, value_cache_, tables_, lengths_,
                    key_,       value_,       offsets_};
    if (keys_.nz()) call.cache_mode = "PA_NZ";
    call.cumulative = cumulative_;
    tensors_.BeforeCall();
    ASSERT_TRUE(call.Run());
    const ElementTensor* const results[] = {key_, value_};
    tensors_.ExpectOnlyWritten(results);
    EXPECT_TRUE(keys.Holds());
    EXPECT_TRUE(values.Holds());
  }

  std::string ToString() const {
    return Str("kind {} cumulative {} lengths [{}] offsets [{}] table [{}]",
               static_cast<int>(keys_.kind), cumulative_,
               Join(length_values_, ", "), Join(offset_values_, ", "),
               Join(table_values_, ", ")) +
           tensors_.ToString();
  }

 private:
  const ElementTensor* Filled(const Form& form, bool input) {
    const ElementTensor* const made = tensors_.New(form, input);
    FillBits(*made, random_);
    return made;
  }

  std::vector<int64_t> RowDims(const Pages& of) const {
    if (of.nz()) return {rows_, of.channels};
    return {rows_, of.heads, of.channels};
  }

  const ElementTensor* MakeIntegers(std::vector<int64_t> dims,
                                    const std::vector<int64_t>& values) {
    const ElementTensor* const made =
        tensors_.New({type_, std::move(dims)}, false);
    SetIntegers(*made, values);
    return made;
  }

  void MakeSequences() {
    type_ = OneOf(random_, {ACL_INT32, ACL_INT64});
    sequences_ = random_.Within(1, 5);
    columns_ = random_.Within(1, 5);
    cumulative_ = random_.OneIn(2);
    const bool wild = random_.OneIn(4);
    const int64_t most = columns_ * keys_.block_rows;
    for (int64_t n = 0; n < sequences_ * columns_; ++n) {
      const int64_t id = random_.Within(0, keys_.blocks - 1);
      table_values_.push_back(
          random_.OneIn(9) ? OneOf<int64_t>(random_, {-1, keys_.blocks, 9999})
                           : id);
    }
    int64_t sum = 0;
    if (cumulative_) length_values_.push_back(wild ? random_.Within(-2, 3) : 0);
    for (int64_t b = 0; b < sequences_; ++b) {
      const int64_t length =
          wild ? random_.Within(-9, 40) : random_.Within(0, most);
      sum += length;
      length_values_.push_back(cumulative_ ? sum : length);
      offset_values_.push_back(wild ? random_.Within(-40, 99)
                                    : random_.Within(0, most));
    }
    tables_ = MakeIntegers({sequences_, columns_}, table_values_);
    lengths_ =
        MakeIntegers({sequences_ + (cumulative_ ? 1 : 0)}, length_values_);
    if (random_.OneIn(2)) {
      offsets_ = MakeIntegers({sequences_}, offset_values_);
    } else {
      offset_values_.assign(offset_values_.size(), 0);
    }
  }

  // The definition.
  Expected Read(const Pages& of, const ElementTensor& cache,
                const ElementTensor& rows) const {
    Expected expected(rows);
    const auto at = [](const std::vector<int64_t>& values, int64_t n) {
      return values[static_cast<size_t>(n)];
    };
    const int64_t x_count = of.heads * of.channels;
    int64_t row = cumulative_ ? std::max<int64_t>(at(length_values_, 0), 0) : 0;
    for (int64_t b = 0; b < sequences_; ++b) {
      const int64_t length =
          cumulative_ ? at(length_values_, b + 1) - row : at(length_values_, b);
      int64_t column = at(offset_values_, b);
      while (column % of.block_rows != 0) --column;
      column /= of.block_rows;
      for (int64_t t = 0; t < length && row < rows_; ++t, ++row) {
        const int64_t m = column + t / of.block_rows;
        if (m < 0 || m >= columns_) continue;
        const int64_t block = at(table_values_, b * columns_ + m);
        if (block < 0 || block >= of.blocks) continue;
        for (int64_t x = 0; x < x_count; ++x) {
          expected.Copy(
              row * x_count + x,
              cache.at(of.At(block * of.block_rows + t % of.block_rows,
                             x / of.channels, x % of.channels)));
        }
      }
    }
    return expected;
  }

  Random random_;
  RandomTensors tensors_;
  Pages keys_, values_;
  aclDataType type_ = ACL_INT32;
  int64_t rows_ = 0, sequences_ = 0, columns_ = 0;
  bool cumulative_ = false;
  std::vector<int64_t> table_values_, length_values_, offset_values_;
  const ElementTensor* key_cache_ = nullptr;
  const ElementTensor* value_cache_ = nullptr;
  const ElementTensor* tables_ = nullptr;
  const ElementTensor* lengths_ = nullptr;
  const ElementTensor* key_ = nullptr;
  const ElementTensor* value_ = nullptr;
  const ElementTensor* offsets_ = nullptr;
};

TEST_F(GatherPaKvCacheTest, RandomCallsAreThoseOfAPlainLoop) {
  CheckRandomCalls<RandomCall>(400);
}

}  // namespace
}  // namespace flashacl::testing
