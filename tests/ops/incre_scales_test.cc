// SPDX-License-Identifier: Apache-2.0
// Which version of decode takes which tensors: what an earlier one lacks, above
// all scales.
#include "ops/incre_scales.h"

#include <gtest/gtest.h>

#include "tests/testing/decode_call.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kInvalid = 161002;
constexpr aclnnStatus kContradiction = 561002;

TEST(IncreVersions, EveryLayoutTypeAndList) {
  for (const int version : {1, 2, 3}) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
      for (const char* layout : {"BSH", "BSND", "BNSD"}) {
        DecodeCall({.type = type, .layout = layout, .version = version})
            .ExpectAsDocumented();
        DecodeCall({.type = type,
                    .layout = layout,
                    .keys = DecodeKeys::kList,
                    .lengths = {3, 0},
                    .own_columns = {4, 2},
                    .mask_rank = 2,
                    .version = version})
            .ExpectAsDocumented();
      }
    }
  }
}

TEST(IncreVersions, PseShiftCountsFromTheThirdOn) {
  for (const int version : {1, 2, 3, 4}) {
    DecodeCall call({.pse_sequences = 2, .version = version});
    call.ExpectAsDocumented();
    call.pse = call.caller.Input({.type = ACL_INT64, .dims = {7}});
    if (version <= 2) {
      EXPECT_TRUE(call.Run());
    } else {
      call.ExpectFailure(kInvalid, "pseShift: data type");
    }
  }
}

TEST(IncreVersions, EightBitOutputFromTheSecondOn) {
  for (const int version : {1, 2, 3}) {
    for (const Scales scales : {Scales::kTensor, Scales::kH}) {
      DecodeCall call(
          {.out_scales = scales, .out_offset = true, .version = version});
      if (version == 1) {
        call.ExpectFailure(kContradiction, "quantScale2: absent");
      } else {
        call.ExpectAsDocumented();
      }
    }
  }
}

TEST(IncreVersions, EightBitKeysAndPagesFromTheThirdOn) {
  for (const int version : {1, 2, 3}) {
    DecodeCall keys({.key_scales = Scales::kTensor, .version = version});
    DecodeCall pages({.keys = DecodeKeys::kBlocksOfRows,
                      .columns = 32,
                      .block_size = 16,
                      .lengths = {17, 32},
                      .version = version});
    if (version == 3) {
      keys.ExpectAsDocumented();
      pages.ExpectAsDocumented();
    } else {
      keys.ExpectFailure(kContradiction, "antiquantScale: absent");
      pages.ExpectFailure(kContradiction, "key: ");
    }
  }
}

TEST(IncreVersions, ScalesOfAllIntegersAreRefused) {
  for (const int version : {2, 3}) {
    DecodeCall call({.version = version});
    call.quant_scale1 = call.caller.Input({.type = ACL_FLOAT, .dims = {1}});
    call.ExpectFailure(kContradiction, "quantScale1: given");
  }
}

TEST(IncreVersions, PrecisionIsCheckedWhereThereIsOne) {
  DecodeCall call({.inner_precise = 2, .version = 3});
  call.ExpectFailure(kContradiction, "innerPrecise: 2");
  DecodeCall({.inner_precise = 2, .version = 2}).ExpectAsDocumented();
}

TEST(IncreVersions, RequiredArgumentsAreRequired) {
  for (const int version : {1, 2, 3}) {
    DecodeCall call({.version = version});
    call.query = nullptr;
    call.ExpectFailure(161001, "query");
    DecodeCall keyless({.version = version});
    keyless.null_keys = true;
    keyless.ExpectFailure(161001, "key");
    DecodeCall layoutless({.version = version});
    layoutless.layout = nullptr;
    layoutless.ExpectFailure(161001, "inputLayout");
  }
}

}  // namespace
}  // namespace flashacl::testing
