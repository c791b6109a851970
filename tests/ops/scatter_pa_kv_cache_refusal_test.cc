// SPDX-License-Identifier: Apache-2.0
// What aclnnScatterPaKvCache refuses.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/testing/child.h"
#include "tests/testing/page_call.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

using page::Numbers;
using page::ScatterCall;
using page::Text;
constexpr aclnnStatus kMismatch = 561002;
using Tensor = const ElementTensor* ScatterCall::*;

struct Refused {
  ScatterCall call;
  aclnnStatus status;
  const char* words;
};

void ExpectRefused(const std::vector<Refused>& cases) {
  for (const Refused& one : cases) {
    EXPECT_TRUE(ElementwiseCall(one.call).IsRefused(one.status, one.words));
  }
}

class ScatterRefusalTest : public RuntimeTest {
 protected:
  ScatterCall Good() const {
    return {&key_, &key_cache_, &slots_, &value_, &value_cache_};
  }
  ScatterCall With(Tensor row, const ElementTensor* instead) const {
    ScatterCall call = Good();
    call.*row = instead;
    return call;
  }
  ScatterCall Modes(Text cache_mode, Text scatter_mode) const {
    ScatterCall call = Good();
    call.cache_mode = std::move(cache_mode);
    call.scatter_mode = std::move(scatter_mode);
    return call;
  }
  ScatterCall Nz() const {
    ScatterCall call = Modes("PA_NZ", "None");
    call.key_cache = &nz_key_cache_;
    call.value_cache = &nz_value_cache_;
    return call;
  }
  ScatterCall NzWith(Tensor row, const ElementTensor* instead) const {
    ScatterCall call = Nz();
    call.*row = instead;
    return call;
  }
  ScatterCall Nct(Numbers strides, Numbers offsets) const {
    ScatterCall call = Modes("Norm", "Nct");
    call.strides = std::move(strides);
    call.offsets = std::move(offsets);
    return call;
  }

  const ElementTensor key_{ACL_FLOAT16, {3, 2, 16}};
  const ElementTensor value_{ACL_FLOAT16, {3, 2, 32}};
  const ElementTensor key_cache_{ACL_FLOAT16, {2, 4, 2, 16}};
  const ElementTensor value_cache_{ACL_FLOAT16, {2, 4, 2, 32}};
  const ElementTensor nz_key_cache_{ACL_FLOAT16, {2, 2, 4, 16}};
  const ElementTensor nz_value_cache_{ACL_FLOAT16, {2, 4, 4, 16}};
  const ElementTensor slots_{ACL_INT32, {3}, {0, 1, 2}};
};

TEST_F(ScatterRefusalTest, NullsAreNamed) {
  ExpectRefused({
      {With(&ScatterCall::key, nullptr), kNull, "The key cannot be nullptr"},
      {With(&ScatterCall::key_cache, nullptr), kNull,
       "The keyCacheRef cannot be nullptr"},
      {With(&ScatterCall::slots, nullptr), kNull,
       "The slotMapping cannot be nullptr"},
      {With(&ScatterCall::value_cache, nullptr), kNull,
       "The valueCacheRef cannot be nullptr beside value"},
      {With(&ScatterCall::value, nullptr), kMismatch,
       "valueCacheRef: shape [2, 4, 2, 32], expected null as there is no "
       "value"},
  });
  ScatterCall alone = Nz();
  alone.value = alone.value_cache = nullptr;
  ExpectRefused({{alone, kMismatch, "value: null, of rank 0 or without"}});
  EXPECT_TRUE(Good().Run());
  EXPECT_TRUE(Nz().Run());
}

TEST_F(ScatterRefusalTest, TypesAreNamed) {
  const ElementTensor floats(ACL_FLOAT, {3, 2, 16}), bf16(ACL_BF16, {3, 2, 32}),
      bytes(ACL_INT8, {3, 2, 32}), bf16_cache(ACL_BF16, {2, 4, 2, 16}),
      small(ACL_INT8, {3}), nibbles(ACL_INT4, {3, 2, 16}),
      wide(ACL_INT64, {2, 4, 2, 16}), byte_cache(ACL_INT8, {2, 2, 4, 32}),
      bf16_values(ACL_BF16, {2, 4, 2, 32});
  ScatterCall mixed = With(&ScatterCall::value, &bf16);
  mixed.value_cache = &bf16_values;
  ScatterCall byte_values = NzWith(&ScatterCall::value, &bytes);
  byte_values.value_cache = &byte_cache;
  ExpectRefused({
      {With(&ScatterCall::key, &floats), kInvalid,
       "key: data type FLOAT (0), expected FLOAT16, BFLOAT16, INT8 or another"},
      {With(&ScatterCall::key, &nibbles), kInvalid, "key: data type"},
      {With(&ScatterCall::key_cache, &wide), kInvalid,
       "keyCacheRef: data type INT64 (9), expected FLOAT16"},
      {With(&ScatterCall::key_cache, &bf16_cache), kInvalid,
       "keyCacheRef: data type BFLOAT16 (27), expected FLOAT16 (1) as key"},
      {With(&ScatterCall::value, &bf16), kInvalid,
       "valueCacheRef: data type FLOAT16 (1), expected BFLOAT16 (27) as value"},
      {mixed, kInvalid,
       "value: data type BFLOAT16 (27), expected FLOAT16 (1) as key"},
      {byte_values, kInvalid,
       "value: data type INT8 (2), expected FLOAT16 (1) as key"},
      {With(&ScatterCall::slots, &small), kInvalid,
       "slotMapping: data type INT8 (2), expected INT32, INT64"},
  });
}

TEST_F(ScatterRefusalTest, NzKeysMayBeBytesBesideHalves) {
  const ElementTensor key(ACL_INT8, {3, 2, 32}), cache(ACL_INT8, {2, 2, 4, 32}),
      plain(ACL_INT8, {2, 4, 2, 32});
  ScatterCall call = NzWith(&ScatterCall::key, &key);
  call.key_cache = &cache;
  EXPECT_TRUE(call.Run());
  ScatterCall rows = With(&ScatterCall::key, &key);
  rows.key_cache = &plain;
  ExpectRefused(
      {{rows, kInvalid, "value: data type FLOAT16 (1), expected INT8"}});
}

TEST_F(ScatterRefusalTest, RanksAreNamed) {
  const ElementTensor flat(ACL_FLOAT16, {3, 32}),
      deep(ACL_FLOAT16, {1, 3, 2, 16}), five(ACL_FLOAT16, {1, 1, 3, 2, 32}),
      cache(ACL_FLOAT16, {8, 2, 16}), slots(ACL_INT32, {3, 1}),
      apart(Form{ACL_FLOAT16, {2, 4, 2, 16}, {0, 32, 16, 1}}),
      nz(Form{ACL_FLOAT16,
              {2, 4, 2, 16},
              {128, 32, 16, 1},
              0,
              ACL_FORMAT_FRACTAL_NZ});
  ExpectRefused({
      {With(&ScatterCall::key, &flat), kInvalid,
       "key: shape [3, 32], expected 3 axes"},
      {With(&ScatterCall::value, &five), kInvalid,
       "value: shape [1, 1, 3, 2, 32], expected 3 axes"},
      {With(&ScatterCall::key, &deep), kMismatch,
       "key: shape [1, 3, 2, 16], expected 3 axes"},
      {With(&ScatterCall::key_cache, &cache), kMismatch,
       "keyCacheRef: shape [8, 2, 16], expected 4 axes"},
      {NzWith(&ScatterCall::value_cache, &cache), kMismatch,
       "valueCacheRef: shape [8, 2, 16], expected 4 or 5 axes"},
      {With(&ScatterCall::slots, &slots), kMismatch,
       "slotMapping: shape [3, 1], expected [3] for the tokens of key"},
      {With(&ScatterCall::key_cache, &apart), kInvalid,
       "keyCacheRef: stride 0 of axis 0"},
      {With(&ScatterCall::key_cache, &nz), kInvalid,
       "keyCacheRef: private format 29"},
  });
}

TEST_F(ScatterRefusalTest, ModesAreNamed) {
  ExpectRefused({
      {Modes("ABC", "None"), kMismatch,
       "cacheModeOptional: \"ABC\", expected \"\", \"Norm\" or \"PA_NZ\""},
      {Modes("Norm", "ABC"), kMismatch,
       "scatterModeOptional: \"ABC\", expected \"\", \"None\", \"NHSD\" or "
       "\"Nct\""},
      {Modes("Norm", "Alibi"), kMismatch,
       "scatterModeOptional: \"Alibi\", whose compressed caches are not "
       "supported"},
      {Modes({}, "Rope"), kMismatch, "scatterModeOptional: \"Rope\", whose"},
      {Modes("", "Omni"), kMismatch, "scatterModeOptional: \"Omni\", whose"},
      {Modes("Norm", "NHSD"), kMismatch,
       "keyCacheRef: shape [2, 4, 2, 16], expected [2, 2, 2, 16] for key [3, "
       "2, 16]"},
  });
}

TEST_F(ScatterRefusalTest, ShapesThatDoNotMatchAreNamed) {
  const ElementTensor heads(ACL_FLOAT16, {2, 4, 3, 16}),
      channels(ACL_FLOAT16, {2, 4, 2, 15}), blocks(ACL_FLOAT16, {3, 4, 2, 32}),
      block(ACL_FLOAT16, {2, 5, 2, 32}), tokens(ACL_FLOAT16, {4, 2, 32}),
      other_heads(ACL_FLOAT16, {3, 1, 32}), slots(ACL_INT32, {4}),
      few(ACL_FLOAT16, {1, 2, 2, 16}), few_values(ACL_FLOAT16, {1, 2, 2, 32}),
      empty(ACL_FLOAT16, {0, 4, 2, 32});
  ScatterCall full = With(&ScatterCall::key_cache, &few);
  full.value_cache = &few_values;
  ExpectRefused({
      {With(&ScatterCall::key_cache, &heads), kMismatch,
       "keyCacheRef: shape [2, 4, 3, 16], expected [2, 4, 2, 16] for key [3, "
       "2, 16]"},
      {With(&ScatterCall::key_cache, &channels), kMismatch,
       "keyCacheRef: shape [2, 4, 2, 15], expected [2, 4, 2, 16]"},
      {With(&ScatterCall::value_cache, &blocks), kMismatch,
       "valueCacheRef: shape [3, 4, 2, 32], expected [2, 4, 2, 32] for value "
       "[3, 2, 32] beside keyCacheRef"},
      {With(&ScatterCall::value_cache, &block), kMismatch,
       "valueCacheRef: shape [2, 5, 2, 32], expected [2, 4, 2, 32]"},
      {With(&ScatterCall::value_cache, &empty), kMismatch,
       "valueCacheRef: shape [0, 4, 2, 32], expected [2, 4, 2, 32]"},
      {With(&ScatterCall::value, &tokens), kMismatch,
       "value: shape [4, 2, 32], expected [3, 2, 32] beside key"},
      {With(&ScatterCall::value, &other_heads), kMismatch,
       "value: shape [3, 1, 32], expected [3, 2, 32] beside key"},
      {With(&ScatterCall::slots, &slots), kMismatch,
       "slotMapping: shape [4], expected [3] for the tokens of key"},
      {full, kMismatch,
       "key: 3 tokens, expected at most the 2 rows of keyCacheRef"},
  });
}

TEST_F(ScatterRefusalTest, NzShapesAreNamed) {
  const ElementTensor odd(ACL_FLOAT16, {3, 2, 24}),
      wide(ACL_FLOAT16, {2, 1, 4, 32}), heads(ACL_FLOAT16, {2, 1, 2, 4, 16}),
      good(ACL_FLOAT16, {2, 2, 1, 4, 16});
  EXPECT_TRUE(NzWith(&ScatterCall::key_cache, &good).Run());
  ExpectRefused({
      {NzWith(&ScatterCall::key, &odd), kMismatch,
       "key: 24 channels, expected a multiple of 16 (32 bytes) with "
       "cacheModeOptional \"PA_NZ\""},
      {NzWith(&ScatterCall::key_cache, &wide), kMismatch,
       "keyCacheRef: shape [2, 1, 4, 32], expected [2, 2, 4, 16] for key"},
      {NzWith(&ScatterCall::key_cache, &heads), kMismatch,
       "keyCacheRef: shape [2, 1, 2, 4, 16], expected [2, 2, 1, 4, 16]"},
  });
}

TEST_F(ScatterRefusalTest, NumbersOfNctAreNamed) {
  ExpectRefused({
      {Nct({{32}}, {}), kMismatch, "stridesOptional: 1 numbers, expected 2"},
      {Nct({}, {{0, 0, 0}}), kMismatch,
       "offsetsOptional: 3 numbers, expected 2"},
      {Nct({{-1, 64}}, {{0, 0}}), kMismatch,
       "stridesOptional: [-1, 64], expected numbers of at least 0"},
      {Nct({}, {{0, -2}}), kMismatch,
       "offsetsOptional: [0, -2], expected numbers of at least 0"},
      {Nct({{INT64_MAX, 64}}, {{0, 0}}), kMismatch,
       "with offsetsOptional [0, 0] spans more than 2^59 elements"},
      {Nct({{int64_t{1} << 58, 64}}, {}), kMismatch, "spans more than 2^59"},
      {Nct({{32, 64}}, {{0, INT64_MAX}}), kMismatch, "spans more than 2^59"},
  });
  ScatterCall alone = Nct({{32, 1, 2}}, {});
  alone.value = alone.value_cache = nullptr;
  ExpectRefused(
      {{alone, kMismatch, "stridesOptional: 3 numbers, expected 1 or 2"}});
  alone.strides = {{32}};
  EXPECT_TRUE(alone.Run());
  EXPECT_TRUE(Nct({{32, 64}}, {{0, 0}}).Run());
  // Nobody looks at them otherwise.
  ScatterCall plain = Nct({{-1}}, {{-1}});
  plain.scatter_mode = "None";
  EXPECT_TRUE(plain.Run());
}

// A child, which StrictModeRefusesWhatHardwareDoes starts.
TEST(ScatterPaKvCacheChild, DISABLED_Strict) {
  const auto answer = [](const char* cache_mode, const char* scatter_mode,
                         std::vector<int64_t> key, std::vector<int64_t> cache) {
    const ElementTensor rows(ACL_FLOAT16, std::move(key)),
        pages(ACL_FLOAT16, std::move(cache)), slots(ACL_INT32, {1}, {0});
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const ScatterCall call{&rows,  &pages,     &slots,      &rows,
                           &pages, cache_mode, scatter_mode};
    return ElementwiseCall(call).Prepare(&size, &executor);
  };
  EXPECT_TRUE(Succeeds(answer("Norm", "NHSD", {1, 2, 32}, {1, 2, 3, 32})));
  EXPECT_TRUE(Succeeds(answer("Norm", "None", {1, 2, 20}, {1, 3, 2, 20})));
  EXPECT_TRUE(FailsWith(kMismatch,
                        answer("Norm", "NHSD", {1, 2, 24}, {1, 2, 3, 24}),
                        "key: 24 channels, expected a multiple of 16"));
  EXPECT_TRUE(FailsWith(kMismatch,
                        answer("Norm", "NHSD", {1, 4096, 16}, {1, 4096, 1, 16}),
                        "key: 4096 heads, expected at most 4095"));
  EXPECT_TRUE(FailsWith(kMismatch,
                        answer("PA_NZ", "", {1, 1, 16}, {1, 1, 65536, 16}),
                        "keyCacheRef: 65536 rows of a block, expected at most "
                        "65535"));
}

TEST_F(ScatterRefusalTest, StrictModeRefusesWhatHardwareDoes) {
  const auto child = RunChild("ScatterPaKvCacheChild.DISABLED_Strict",
                              {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::testing
