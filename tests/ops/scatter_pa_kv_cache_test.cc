// SPDX-License-Identifier: Apache-2.0
// aclnnScatterPaKvCache: by hand, and random calls against a plain loop.
// Refusals are in scatter_pa_kv_cache_refusal_test.cc.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <span>
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
using ScatterPaKvCacheTest = RuntimeTest;

// Blocks of two rows; a row is one head of two channels.
struct Small {
  ElementTensor key{ACL_FLOAT16, {3, 1, 2}, {1, 2, 3, 4, 5, 6}};
  ElementTensor value{ACL_FLOAT16, {3, 1, 1}, {7, 8, 9}};
  ElementTensor key_cache{ACL_FLOAT16, {3, 2, 1, 2}, Values12()};
  ElementTensor value_cache{ACL_FLOAT16, {3, 2, 1, 1}, {0, 0, 0, 0, 0, 0}};
  ElementTensor slots{ACL_INT32, {3}, {5, 0, 3}};

  static std::initializer_list<double> Values12() {
    static constexpr std::initializer_list<double> kZeros = {0, 0, 0, 0, 0, 0,
                                                             0, 0, 0, 0, 0, 0};
    return kZeros;
  }
  ScatterCall Call() const {
    return {&key, &key_cache, &slots, &value, &value_cache};
  }
};

TEST_F(ScatterPaKvCacheTest, RowsGoToTheirSlots) {
  const Small small;
  ASSERT_TRUE(small.Call().Run());
  EXPECT_EQ(small.key_cache.Values(),
            (Values{3, 4, 0, 0, 0, 0, 5, 6, 0, 0, 1, 2}));
  EXPECT_EQ(small.value_cache.Values(), (Values{8, 0, 0, 9, 0, 7}));
}

TEST_F(ScatterPaKvCacheTest, SlotsThatNameNoRowAreSkipped) {
  Small small;
  SetIntegers(small.slots, {-1, 6, 1});
  ASSERT_TRUE(small.Call().Run());
  EXPECT_EQ(small.value_cache.Values(), (Values{0, 9, 0, 0, 0, 0}));
  const ElementTensor wide(ACL_INT64, {3});
  SetIntegers(wide, {INT64_MIN, (int64_t{1} << 32) + 2, INT64_MAX});
  ScatterCall call = small.Call();
  call.slots = &wide;
  ASSERT_TRUE(call.Run());
  EXPECT_EQ(small.value_cache.Values(), (Values{0, 9, 0, 0, 0, 0}));
}

TEST_F(ScatterPaKvCacheTest, TheLastTokenOfASlotIsKept) {
  Small small;
  SetIntegers(small.slots, {4, 2, 4});
  ASSERT_TRUE(small.Call().Run());
  EXPECT_EQ(small.value_cache.Values(), (Values{0, 0, 8, 0, 9, 0}));
  SetIntegers(small.slots, {1, 1, 1});
  ASSERT_TRUE(small.Call().Run());
  EXPECT_EQ(small.value_cache.Values(), (Values{0, 9, 8, 0, 9, 0}));
}

TEST_F(ScatterPaKvCacheTest, SlotsAreReadWhenTheTaskRuns) {
  Small small;
  const ElementwiseCall call = small.Call();
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(call.Prepare(&size, &executor), 0);
  SetIntegers(small.slots, {0, 1, 2});
  ASSERT_EQ(EntryPointsOf(call.name).phase_two(nullptr, 0, executor, nullptr),
            0);
  ASSERT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  EXPECT_EQ(small.value_cache.Values(), (Values{7, 8, 9, 0, 0, 0}));
}

TEST_F(ScatterPaKvCacheTest, KeysMayBeAlone) {
  const ElementTensor scalar(ACL_FLOAT16, {}), none(ACL_FLOAT16, {3, 1, 0});
  for (const ElementTensor* value :
       {static_cast<const ElementTensor*>(nullptr), &scalar, &none}) {
    const Small small;
    ScatterCall call = small.Call();
    call.value = call.value_cache = value;
    ASSERT_TRUE(call.Run());
    EXPECT_EQ(small.key_cache.Values(),
              (Values{3, 4, 0, 0, 0, 0, 5, 6, 0, 0, 1, 2}));
  }
}

TEST_F(ScatterPaKvCacheTest, NullModesAreUsualOnes) {
  for (const Text& cache_mode : {Text(), Text(""), Text("Norm")}) {
    for (const Text& scatter_mode : {Text(), Text(""), Text("None")}) {
      const Small small;
      ScatterCall call = small.Call();
      call.cache_mode = cache_mode;
      call.scatter_mode = scatter_mode;
      ASSERT_TRUE(call.Run());
      EXPECT_EQ(small.value_cache.Values(), (Values{8, 0, 0, 9, 0, 7}));
    }
  }
}

TEST_F(ScatterPaKvCacheTest, WithoutElementsNothingIsDone) {
  const ElementTensor no_key(ACL_FLOAT16, {0, 1, 2}), no_slots(ACL_INT32, {0}),
      no_cache(ACL_FLOAT16, {0, 2, 1, 2}), no_value(ACL_FLOAT16, {0, 1, 1});
  const Small small;
  ScatterCall call = small.Call();
  call.key = &no_key;
  call.value = &no_value;
  call.slots = &no_slots;
  EXPECT_TRUE(call.Run());
  call = small.Call();
  call.key_cache = &no_cache;
  EXPECT_TRUE(call.Run());
  EXPECT_EQ(small.value_cache.Values(), Values(6, 0));
}

// Channel 17 of key 5 in pages of 4, table {1, 0}: [0][g][1][1][1].
TEST_F(ScatterPaKvCacheTest, NzPagesAreThoseThatAttentionReads) {
  const ElementTensor slot(ACL_INT32, {1}, {1}),
      cache(ACL_FLOAT16, {2, 2, 2, 4, 16}), values(ACL_FLOAT16, {2, 4, 4, 16});
  ElementTensor key(ACL_FLOAT16, {1, 2, 32}), value(ACL_FLOAT16, {1, 2, 32});
  for (int64_t n = 0; n < 64; ++n) {
    key.Set(n, static_cast<double>(n));
    value.Set(n, static_cast<double>(n));
  }
  const ScatterCall call{.key = &key,
                         .key_cache = &cache,
                         .slots = &slot,
                         .value = &value,
                         .value_cache = &values,
                         .cache_mode = "PA_NZ",
                         .scatter_mode = "nobody looks"};
  ASSERT_TRUE(call.Run());
  for (int64_t g = 0; g < 2; ++g) {
    const int64_t n = (((0 * 2 + g) * 2 + 1) * 4 + 1) * 16 + 1;
    EXPECT_EQ(cache.Values()[static_cast<size_t>(n)],
              static_cast<double>(g * 32 + 17));
  }
  EXPECT_EQ(cache.Image(), values.Image());
}

// Rows of keys and values in one tensor, as a fused projection leaves them.
TEST_F(ScatterPaKvCacheTest, NctRowsBeginWhereNumbersSay) {
  for (const bool given : {true, false}) {
    Small small;
    const ElementTensor both(ACL_FLOAT16, {3, 1, 4},
                             {0, 1, 2, 7, 0, 3, 4, 8, 0, 5, 6, 9});
    // Memory of all, and a shape of which only the last two axes count.
    const ElementTensor key(
        Form{ACL_FLOAT16, {3, 1, 2}, {given ? 5 : 4, 9, 1}, given ? 0 : 1});
    const ElementTensor value(
        Form{ACL_FLOAT16, {3, 1, 1}, {given ? 6 : 4, 9, 9}, given ? 0 : 3});
    for (const ElementTensor* one : {&key, &value}) {
      std::memcpy(one->data(), both.data(),
                  std::min(one->Image().size(), both.Image().size()));
    }
    ScatterCall call = small.Call();
    call.key = &key;
    call.value = &value;
    call.scatter_mode = "Nct";
    if (given) {
      call.strides = {4, 4};
      call.offsets = {1, 3};
    }
    ASSERT_TRUE(call.Run());
    EXPECT_EQ(small.key_cache.Values(),
              (Values{3, 4, 0, 0, 0, 0, 5, 6, 0, 0, 1, 2}));
    EXPECT_EQ(small.value_cache.Values(), (Values{8, 0, 0, 9, 0, 7}));
  }
}

// A random call, its tensors filled, and what it should leave.
class RandomCall {
 public:
  explicit RandomCall(uint64_t seed) : random_(seed), tensors_(random_) {
    keys_ = RandomPages(
        random_, {Kind::kRows, Kind::kHeads, Kind::kNz, Kind::kNzByHeads});
    values_ = ValuesBeside(keys_, random_);
    if (keys_.nz() && random_.OneIn(2)) {
      values_.kind = keys_.kind == Kind::kNz ? Kind::kNzByHeads : Kind::kNz;
    }
    has_values_ = keys_.nz() || !random_.OneIn(4);
    apart_ = keys_.kind == Kind::kRows && random_.OneIn(3);
    tokens_ = Sized(random_, 1, keys_.rows());
    MakeSlots();
    key_ = MakeRows(keys_, 0);
    key_cache_ = MakeCache(keys_);
    if (has_values_) {
      value_ = MakeRows(values_, 1);
      value_cache_ = MakeCache(values_);
    }
  }

  void Check() {
    const Expected keys = Written(keys_, *key_, *key_cache_, 0);
    std::vector<const ElementTensor*> caches{key_cache_};
    std::optional<Expected> values;
    if (has_values_) {
      values.emplace(Written(values_, *value_, *value_cache_, 1));
      caches.push_back(value_cache_);
    }
    tensors_.BeforeCall();
    ASSERT_TRUE(Call().Run());
    tensors_.ExpectOnlyWritten(caches);
    EXPECT_TRUE(keys.Holds());
    EXPECT_TRUE(!values || values->Holds());
  }

  std::string ToString() const {
    return Str("kinds {} {} apart {} slots [{}]", static_cast<int>(keys_.kind),
               static_cast<int>(values_.kind), apart_,
               Join(slot_values_, ", ")) +
           tensors_.ToString();
  }

 private:
  void MakeSlots() {
    const aclDataType type = OneOf(random_, {ACL_INT32, ACL_INT64});
    slots_ = tensors_.New({type, {tokens_}}, false);
    std::vector<int64_t> rows(static_cast<size_t>(keys_.rows()));
    std::iota(rows.begin(), rows.end(), int64_t{0});
    const bool shuffled = !random_.OneIn(3), repeated = random_.OneIn(3);
    for (int64_t n = 0; n < tokens_; ++n) {
      const int64_t last = keys_.rows() - 1;
      if (shuffled) {
        std::swap(rows[static_cast<size_t>(n)],
                  rows[static_cast<size_t>(random_.Within(n, last))]);
      }
      int64_t slot = rows[static_cast<size_t>(n)];
      if (repeated) slot = random_.Within(0, std::min<int64_t>(last, 4));
      if (random_.OneIn(12)) slot = OneOf<int64_t>(random_, {-1, -7, last + 1});
      slot_values_.push_back(slot);
    }
    SetIntegers(*slots_, slot_values_);
  }

  const ElementTensor* MakeRows(const Pages& of, size_t part) {
    Form form{of.type, {tokens_, of.heads, of.channels}};
    if (apart_) {
      // Any rows that the tensor's own have room for.
      form = AnyStrides(random_, std::move(form), false);
      form.strides[0] += random_.Within(0, 9);
      stride_[part] = random_.Within(0, form.strides[0]);
      const int64_t room = (tokens_ - 1) * (form.strides[0] - stride_[part]);
      offset_[part] = random_.Within(0, room);
    }
    const ElementTensor* const rows = apart_
                                          ? tensors_.NewAsIs(std::move(form))
                                          : tensors_.New(std::move(form), true);
    for (std::byte& one : std::span(rows->data(), rows->Image().size())) {
      one = static_cast<std::byte>(random_.Within(0, 255));
    }
    return rows;
  }

  const ElementTensor* MakeCache(const Pages& of) {
    const ElementTensor* const cache =
        tensors_.New({of.type, of.CacheDims()}, false);
    FillBits(*cache, random_);
    return cache;
  }

  ScatterCall Call() const {
    ScatterCall call{key_, key_cache_, slots_, value_, value_cache_};
    if (keys_.nz()) call.cache_mode = "PA_NZ";
    if (keys_.kind == Kind::kHeads) call.scatter_mode = "NHSD";
    if (apart_) {
      call.scatter_mode = "Nct";
      call.strides.emplace();
      call.offsets.emplace();
      for (size_t part = 0; part < (has_values_ ? 2 : 1); ++part) {
        call.strides->push_back(stride_[part]);
        call.offsets->push_back(offset_[part]);
      }
    }
    return call;
  }

  // The definition.
  Expected Written(const Pages& of, const ElementTensor& rows,
                   const ElementTensor& cache, size_t part) const {
    Expected expected(cache);
    for (int64_t n = 0; n < tokens_; ++n) {
      const int64_t slot = slot_values_[static_cast<size_t>(n)];
      if (slot < 0 || slot >= of.rows()) continue;
      for (int64_t x = 0; x < of.heads * of.channels; ++x) {
        const std::byte* from = rows.at(n * of.heads * of.channels + x);
        if (apart_) {
          from = rows.at(x) + (offset_[part] + n * stride_[part]) * of.bytes();
        }
        expected.Copy(of.At(slot, x / of.channels, x % of.channels), from);
      }
    }
    return expected;
  }

  Random random_;
  RandomTensors tensors_;
  Pages keys_, values_;
  bool has_values_ = true;
  bool apart_ = false;
  int64_t tokens_ = 0;
  int64_t stride_[2] = {}, offset_[2] = {};
  std::vector<int64_t> slot_values_;
  const ElementTensor* key_ = nullptr;
  const ElementTensor* key_cache_ = nullptr;
  const ElementTensor* slots_ = nullptr;
  const ElementTensor* value_ = nullptr;
  const ElementTensor* value_cache_ = nullptr;
};

TEST_F(ScatterPaKvCacheTest, RandomCallsAreThoseOfAPlainLoop) {
  CheckRandomCalls<RandomCall>(400);
}

}  // namespace
}  // namespace flashacl::testing
