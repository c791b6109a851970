// SPDX-License-Identifier: Apache-2.0
// What aclnnGatherPaKvCache refuses.
#include <gtest/gtest.h>

#include <vector>

#include "base/str.h"
#include "tests/testing/page_call.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

using page::GatherCall;
constexpr aclnnStatus kMismatch = 561002;
using Tensor = const ElementTensor* GatherCall::*;

struct Refused {
  GatherCall call;
  aclnnStatus status;
  const char* words;
};

void ExpectRefused(const std::vector<Refused>& cases) {
  for (const Refused& one : cases) {
    EXPECT_TRUE(ElementwiseCall(one.call).IsRefused(one.status, one.words));
  }
}

class GatherRefusalTest : public RuntimeTest {
 protected:
  GatherCall Good() const {
    return {&key_cache_, &value_cache_, &tables_, &lengths_,
            &key_,       &value_,       &offsets_};
  }
  GatherCall With(Tensor row, const ElementTensor* instead) const {
    GatherCall call = Good();
    call.*row = instead;
    return call;
  }
  GatherCall Nz() const {
    return {&nz_cache_, &nz_cache_, &tables_,  &lengths_,
            &flat_,     &flat_,     &offsets_, "PA_NZ"};
  }
  GatherCall NzWith(Tensor row, const ElementTensor* instead) const {
    GatherCall call = Nz();
    call.*row = instead;
    return call;
  }

  const ElementTensor key_cache_{ACL_FLOAT16, {3, 4, 2, 16}};
  const ElementTensor value_cache_{ACL_FLOAT16, {3, 4, 2, 8}};
  const ElementTensor nz_cache_{ACL_FLOAT16, {3, 2, 4, 16}};
  const ElementTensor tables_{ACL_INT32, {2, 1}, {0, 1}};
  const ElementTensor lengths_{ACL_INT32, {2}, {1, 1}};
  const ElementTensor offsets_{ACL_INT32, {2}, {0, 0}};
  const ElementTensor key_{ACL_FLOAT16, {5, 2, 16}};
  const ElementTensor value_{ACL_FLOAT16, {5, 2, 8}};
  const ElementTensor flat_{ACL_FLOAT16, {5, 32}};
};

TEST_F(GatherRefusalTest, NullsAreNamed) {
  const struct {
    Tensor row;
    const char* name;
  } kRows[] = {{&GatherCall::key_cache, "keyCache"},
               {&GatherCall::value_cache, "valueCache"},
               {&GatherCall::tables, "blockTables"},
               {&GatherCall::lengths, "seqLens"},
               {&GatherCall::key, "keyRef"},
               {&GatherCall::value, "valueRef"}};
  for (const auto& [row, name] : kRows) {
    EXPECT_TRUE(ElementwiseCall(With(row, nullptr))
                    .IsRefused(kNull, Str("The {} cannot be nullptr", name)));
  }
  GatherCall no_mode = Good();
  no_mode.cache_mode.reset();
  ExpectRefused({{no_mode, kNull, "The cacheMode cannot be nullptr"}});
  EXPECT_TRUE(With(&GatherCall::offsets, nullptr).Run());
  EXPECT_TRUE(Good().Run());
  EXPECT_TRUE(Nz().Run());
}

TEST_F(GatherRefusalTest, TypesAreNamed) {
  const ElementTensor floats(ACL_FLOAT, {3, 4, 2, 16}),
      bf16(ACL_BF16, {5, 2, 16}), bf16_cache(ACL_BF16, {3, 4, 2, 16}),
      wide(ACL_INT64, {2}), words(ACL_FLOAT, {2, 1}),
      apart(Form{ACL_FLOAT16, {5, 2, 8}, {16, 0, 1}}),
      bytes(ACL_INT8, {3, 1, 4, 32}), flat_bytes(ACL_INT8, {5, 32});
  GatherCall mixed = With(&GatherCall::key_cache, &bf16_cache);
  mixed.key = &bf16;
  GatherCall keys_are_bytes = NzWith(&GatherCall::key_cache, &bytes);
  keys_are_bytes.key = &flat_bytes;
  GatherCall values_are_bytes = NzWith(&GatherCall::value_cache, &bytes);
  values_are_bytes.value = &flat_bytes;
  EXPECT_TRUE(keys_are_bytes.Run());
  ExpectRefused({
      {With(&GatherCall::key_cache, &floats), kInvalid,
       "keyCache: data type FLOAT (0), expected FLOAT16, BFLOAT16, INT8 or"},
      {With(&GatherCall::key, &bf16), kInvalid,
       "keyCache: data type FLOAT16 (1), expected BFLOAT16 (27) as keyRef"},
      {mixed, kInvalid,
       "valueRef: data type FLOAT16 (1), expected BFLOAT16 (27) as keyRef"},
      {values_are_bytes, kInvalid,
       "valueRef: data type INT8 (2), expected FLOAT16 (1) as keyRef"},
      {With(&GatherCall::tables, &words), kInvalid,
       "blockTables: data type FLOAT (0), expected INT32, INT64"},
      {With(&GatherCall::lengths, &wide), kInvalid,
       "seqLens: data type INT64, expected INT32 as blockTables"},
      {With(&GatherCall::offsets, &wide), kInvalid,
       "seqOffsetOptional: data type INT64, expected INT32 as blockTables"},
      {With(&GatherCall::value, &apart), kInvalid,
       "valueRef: stride 0 of axis 1"},
  });
}

TEST_F(GatherRefusalTest, RanksAreNamed) {
  const ElementTensor three(ACL_FLOAT16, {3, 4, 32}), one(ACL_FLOAT16, {5}),
      list(ACL_INT32, {2}), square(ACL_INT32, {2, 1});
  ExpectRefused({
      {With(&GatherCall::value_cache, &three), kInvalid,
       "valueCache: shape [3, 4, 32], expected 4 axes"},
      {With(&GatherCall::tables, &list), kInvalid,
       "blockTables: shape [2], expected 2 axes"},
      {With(&GatherCall::lengths, &square), kInvalid,
       "seqLens: shape [2, 1], expected 1 axes"},
      {With(&GatherCall::offsets, &square), kInvalid,
       "seqOffsetOptional: shape [2, 1], expected 1 axes"},
      {With(&GatherCall::key, &one), kInvalid,
       "keyRef: shape [5], expected 2 or 3 axes"},
      {With(&GatherCall::key, &flat_), kMismatch,
       "keyRef: shape [5, 32], expected 3 axes with cacheMode \"Norm\""},
      {NzWith(&GatherCall::value, &value_), kMismatch,
       "valueRef: shape [5, 2, 8], expected 2 axes with cacheMode \"PA_NZ\""},
  });
}

TEST_F(GatherRefusalTest, ModesAreNamed) {
  for (const char* mode : {"", "ABC", "norm"}) {
    GatherCall call = Good();
    call.cache_mode = mode;
    EXPECT_TRUE(ElementwiseCall(call).IsRefused(
        kMismatch,
        Str("cacheMode: \"{}\", expected \"Norm\" or \"PA_NZ\"", mode)));
  }
}

TEST_F(GatherRefusalTest, ShapesThatDoNotMatchAreNamed) {
  const ElementTensor heads(ACL_FLOAT16, {5, 3, 16}),
      rows(ACL_FLOAT16, {6, 2, 8}), blocks(ACL_FLOAT16, {4, 4, 2, 8}),
      block(ACL_FLOAT16, {3, 5, 2, 8}), one_head(ACL_FLOAT16, {3, 4, 1, 8}),
      three(ACL_INT32, {3}), wide(ACL_FLOAT16, {3, 1, 4, 32}),
      narrow(ACL_FLOAT16, {5, 16});
  GatherCall ends = Good();
  ends.cumulative = true;
  ExpectRefused({
      {With(&GatherCall::key, &heads), kMismatch,
       "keyRef: shape [5, 3, 16], expected [5, 2, 16] for keyCache [3, 4, 2, "
       "16]"},
      {With(&GatherCall::value, &rows), kMismatch,
       "valueRef: shape [6, 2, 8], expected [5, 2, 8] for valueCache [3, 4, 2, "
       "8] beside keyRef"},
      {With(&GatherCall::value_cache, &blocks), kMismatch,
       "valueCache: shape [4, 4, 2, 8], expected [3, 4, 2, 8] beside keyCache"},
      {With(&GatherCall::value_cache, &block), kMismatch,
       "valueCache: shape [3, 5, 2, 8], expected [3, 4, 2, 8]"},
      {With(&GatherCall::value_cache, &one_head), kMismatch,
       "valueCache: shape [3, 4, 1, 8], expected [3, 4, 2, 8]"},
      {With(&GatherCall::lengths, &three), kMismatch,
       "seqLens: shape [3], expected [2] for the rows of blockTables"},
      {ends, kMismatch,
       "seqLens: shape [2], expected [3] for the rows of blockTables, and one "
       "more"},
      {With(&GatherCall::offsets, &three), kMismatch,
       "seqOffsetOptional: shape [3], expected [2] for the rows of "
       "blockTables"},
      {NzWith(&GatherCall::key_cache, &wide), kMismatch,
       "keyCache: shape [3, 1, 4, 32], expected a last axis of 16 (32 bytes)"},
      {NzWith(&GatherCall::value, &narrow), kMismatch,
       "valueRef: shape [5, 16], expected [5, 32] for valueCache"},
  });
  ends.lengths = &three;
  page::SetIntegers(three, {0, 1, 2});
  EXPECT_TRUE(ends.Run());
}

}  // namespace
}  // namespace flashacl::testing
