// SPDX-License-Identifier: Apache-2.0
// What aclnnFusedInferAttentionScore V5 refuses of paddings, prefixes, ropes,
// sinks and scales: one table row per line of its document.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/testing/fused_infer_call.h"
#include "tests/testing/fused_infer_refusal.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

using namespace fused;  // NOLINT: what all rows are made of

TEST(FusedInferRefusals, Paddings) {
  const FusedInferCase good{.lengths = {2, 1},
                            .kv_lengths = {3, 2},
                            .query_padding = 0,
                            .kv_padding = 1};
  const Form two{ACL_INT64, {2}};
  const Refusals refusals = {
      {kContradiction, "queryPaddingSize", Formed(&C::query_padding, two)},
      {kContradiction, "kvPaddingSize", Formed(&C::kv_padding, two)},
      {kContradiction, "PaddingSize", Set(&C::layout, "BNSD_NBSD")},
      {kContradiction, "PaddingSize",
       [](C& c) {
         c.query_rope = c.caller.Input({.dims = {2, 4, 3, 8}});
         c.key_rope = c.caller.Input({.dims = {2, 2, 5, 8}});
       }},
      {kContradiction, "PaddingSize",
       [](C& c) {
         c.key_prefix = c.caller.Input({.dims = {1, 2, 4, 16}});
         c.value_prefix = c.caller.Input({.dims = {1, 2, 4, 16}});
       }},
  };
  for (const Refusal<C>& refusal : refusals) {
    SCOPED_TRACE(refusal.words);
    C call(good);
    refusal.change(call);
    if (std::string(call.layout) != "BNSD") {
      call.caller.Replace(call.out, {.dims = {4, 2, 3, 16}});
    }
    call.ExpectFailure(refusal.status, refusal.words);
  }
  FusedInferCase packed = Packed();
  packed.kv_padding = 1;
  C(packed).ExpectFailure(kContradiction, "kvPaddingSize");
  for (const int64_t rows : {1, 3}) {
    FusedInferCase four{.rows = rows,
                        .kv_lengths = {3, 2},
                        .kv_padding = 1,
                        .scales = FusedScales::kSeparate,
                        .bits = 4,
                        .scale_form = 5};
    C(four).ExpectFailure(kContradiction, "kvPaddingSize: given with INT4");
  }
}

TEST(FusedInferRefusals, Prefixes) {
  const FusedInferCase good{.prefix = 4};
  const auto shaped = [](std::vector<int64_t> key, std::vector<int64_t> value) {
    return [=](C& c) {
      c.key_prefix = c.caller.Input({.dims = key});
      c.value_prefix = c.caller.Input({.dims = value});
    };
  };
  const std::vector<int64_t> fine{1, 2, 4, 16};
  const Refusals refusals = {
      {kContradiction, "valueSharedPrefix", Without(&C::value_prefix)},
      {kContradiction, "keySharedPrefix", Without(&C::key_prefix)},
      {kContradiction, "keySharedPrefix", shaped({2, 2, 4, 16}, fine)},
      {kContradiction, "keySharedPrefix", shaped({1, 4, 4, 16}, fine)},
      {kContradiction, "keySharedPrefix", shaped({1, 2, 4, 8}, fine)},
      {kContradiction, "keySharedPrefix", shaped({1, 4, 32}, fine)},
      {kContradiction, "valueSharedPrefix", shaped(fine, {1, 2, 5, 16})},
      {kContradiction, "valueSharedPrefix", shaped(fine, {1, 2, 4, 8})},
      {kContradiction, "keySharedPrefix",
       Formed(&C::key_prefix, {ACL_BF16, fine})},
      {kContradiction, "actualSharedPrefixLen: 5",
       Array(&C::prefix_length, {5})},
      {kContradiction, "actualSharedPrefixLen: -1",
       Array(&C::prefix_length, {-1})},
      {kContradiction, "attenMask: shape", Mask({2, 3, 8})},
      {kContradiction, "pseShift: shape", Bias({2, 4, 3, 8})},
      {kContradiction, "keySharedPrefix: given with rope",
       [](C& c) {
         c.query_rope = c.caller.Input({.dims = {2, 4, 3, 8}});
         c.key_rope = c.caller.Input({.dims = {2, 2, 5, 8}});
       }},
  };
  ExpectRefusals(good, refusals);
  FusedInferCase packed = Packed();
  C call(packed);
  call.key_prefix = call.caller.Input({.dims = {4, 2, 16}});
  call.value_prefix = call.key_prefix;
  call.ExpectFailure(kContradiction, "SharedPrefix");
  for (const int64_t mode : {1, 3}) {
    FusedInferCase tokens{.prefix = 4,
                          .scales = FusedScales::kSeparate,
                          .key_mode = mode,
                          .value_mode = mode};
    C(tokens).ExpectFailure(kContradiction, "with a shared prefix");
  }
}

TEST(FusedInferRefusals, Ropes) {
  const FusedInferCase good{.rope_dim = 64};
  const Refusals refusals = {
      {kContradiction, "keyRope", Without(&C::key_rope)},
      {kContradiction, "queryRope", Without(&C::query_rope)},
      {kContradiction, "queryRope", Shaped(&C::query_rope, {2, 4, 2, 64})},
      {kContradiction, "queryRope", Shaped(&C::query_rope, {2, 3, 256})},
      {kContradiction, "keyRope", Shaped(&C::key_rope, {2, 2, 5, 32})},
      {kContradiction, "keyRope", Shaped(&C::key_rope, {2, 2, 6, 64})},
      {kContradiction, "keyRope", Shaped(&C::key_rope, {2, 5, 128})},
      {kContradiction, "queryRope: data type", Typed(&C::query_rope, ACL_BF16)},
      {kContradiction, "keyRope: data type", Typed(&C::key_rope, ACL_BF16)},
      {kContradiction, "pseShift", Bias({2, 4, 3, 5})},
      {kContradiction, "key",
       [](C& c) {
         const Form form{ACL_INT8, {2, 2, 5, 16}};
         Keys(form, form)(c);
         c.antiquant_scale = c.caller.Input({.dims = {2}});
       }},
  };
  ExpectRefusals(good, refusals);
}

TEST(FusedInferRefusals, Sinks) {
  const Refusals refusals = {
      {kContradiction, "learnableSink: shape",
       Formed(&C::sink, {ACL_BF16, {3}})},
      {kContradiction, "learnableSink: shape",
       Formed(&C::sink, {ACL_BF16, {4, 1}})},
      {kContradiction, "learnableSink", Formed(&C::sink, {ACL_FLOAT, {4}})},
  };
  ExpectRefusals({}, refusals);
  C bf16({.type = ACL_BF16, .sink = ACL_FLOAT16});
  bf16.ExpectFailure(kContradiction, "learnableSink: data type");
}

FusedInferCase Scaled(int64_t mode) {
  return {.scales = FusedScales::kSeparate,
          .key_mode = mode,
          .value_mode = mode,
          .scale_form = mode == 0 ? 5 : 0,
          .offsets = true};
}

TEST(FusedInferRefusals, ScalesOfKeys) {
  const auto modes = [](int64_t key, int64_t value) {
    return [=](C& c) {
      c.key_mode = key;
      c.value_mode = value;
    };
  };
  const auto both = [](Form form) {
    return [=](C& c) {
      c.key_scale = c.caller.Input(form);
      c.value_scale = c.caller.Input(form);
      c.key_offset = c.value_offset = nullptr;
    };
  };
  const Form float16{ACL_FLOAT16, {2, 16}};
  const Refusals refusals = {
      {kContradiction, "valueAntiquantScale", Without(&C::value_scale)},
      {kContradiction, "keyAntiquantScale", Without(&C::key_scale)},
      {kContradiction, "valueAntiquantOffset", Without(&C::value_offset)},
      {kContradiction, "keyAntiquantOffset", Without(&C::key_offset)},
      {kContradiction, "absent, but key is quantised",
       All<C>(Without(&C::key_scale), Without(&C::value_scale),
              Without(&C::key_offset), Without(&C::value_offset))},
      {kContradiction, "keyAntiquantOffset", Shaped(&C::key_offset, {32})},
      {kContradiction, "keyAntiquantOffset", Typed(&C::key_offset, ACL_FLOAT)},
      {kContradiction, "valueAntiquantScale", Shaped(&C::value_scale, {32})},
      // Each may have this shape, but not beside the other.
      {kContradiction, "valueAntiquantScale: shape [32] does not match",
       All<C>(Shaped(&C::value_scale, {32}), Shaped(&C::value_offset, {32}))},
      {kContradiction, "keyAntiquantScale: data type",
       both({ACL_FLOAT, {2, 16}})},
      {kContradiction, "keyAntiquantScale: shape", both({ACL_FLOAT16, {2}})},
      {kContradiction, "keyAntiquantScale: shape", both({ACL_FLOAT16, {2, 8}})},
      {kContradiction, "keyAntiquantScale: shape",
       both({ACL_FLOAT16, {4, 16}})},
      {kContradiction, "keyAntiquantMode: 6", modes(6, 6)},
      {kContradiction, "keyAntiquantMode: -1", modes(-1, -1)},
      {kContradiction, "AntiquantMode", modes(0, 2)},
      {kContradiction, "AntiquantMode", modes(1, 0)},
      {kContradiction, "AntiquantMode: 4",
       All<C>(modes(4, 4), both({ACL_FLOAT, {2, 5}}))},
      {kContradiction, "keyAntiquantScale: shape",
       All<C>(modes(1, 1), both({ACL_FLOAT, {2, 4}}))},
      {kContradiction, "keyAntiquantScale: shape",
       All<C>(modes(3, 3), both({ACL_FLOAT, {2, 1, 5}}))},
      {kContradiction, "keyAntiquantScale: shape",
       All<C>(modes(2, 2), both({ACL_FLOAT16, {4}}))},
      {kContradiction, "keyAntiquantScale: data type",
       All<C>(modes(1, 1), both({ACL_FLOAT16, {2, 5}}))},
  };
  ExpectRefusals(Scaled(0), refusals);
  const Refusals of_floats = {
      {kContradiction, "keyAntiquantScale", both(float16)},
      {kContradiction, "antiquantScale",
       Formed(&C::antiquant_scale, {ACL_FLOAT16, {2}})},
      {kContradiction, "antiquantMode: 1", Set(&C::antiquant_mode, 1)},
  };
  ExpectRefusals({}, of_floats);
}

// As many as a page has rows, not more.
TEST(FusedInferRefusals, ScalesOfPages) {
  const auto scales = [](std::vector<int64_t> dims) {
    return All<C>(Shaped(&C::key_scale, dims), Shaped(&C::value_scale, dims));
  };
  FusedInferCase good = Paged();
  good.scales = FusedScales::kSeparate;
  good.key_mode = good.value_mode = 4;
  const Refusals of_pages = {
      {kContradiction, "keyAntiquantScale: shape [6, 33]", scales({6, 33})},
      {kContradiction, "keyAntiquantScale: shape [6, 31]", scales({6, 31})},
      {kContradiction, "keyAntiquantScale: shape [7, 32]", scales({7, 32})},
  };
  ExpectRefusals(good, of_pages);
  good.key_mode = good.value_mode = 5;
  const Refusals of_heads = {
      {kContradiction, "keyAntiquantScale: shape", scales({6, 2, 33})},
      {kContradiction, "keyAntiquantScale: shape", scales({6, 1, 32})},
  };
  ExpectRefusals(good, of_heads);
}

TEST(FusedInferRefusals, CombinedScales) {
  const FusedInferCase good{.scales = FusedScales::kCombined, .offsets = true};
  const Refusals refusals = {
      {kContradiction, "antiquantScale",
       All<C>(Without(&C::antiquant_scale), Without(&C::antiquant_offset))},
      {kContradiction, "antiquantOffset", Shaped(&C::antiquant_offset, {1})},
      {kContradiction, "antiquantOffset",
       Typed(&C::antiquant_offset, ACL_FLOAT)},
      {kContradiction, "antiquantScale: data type",
       All<C>(Typed(&C::antiquant_scale, ACL_FLOAT),
              Typed(&C::antiquant_offset, ACL_FLOAT))},
      {kContradiction, "antiquantScale: shape",
       All<C>(Shaped(&C::antiquant_scale, {2, 16}),
              Shaped(&C::antiquant_offset, {2, 16}))},
      {kContradiction, "antiquantScale: shape [3, 32], expected a first axis",
       All<C>(Shaped(&C::antiquant_scale, {3, 32}),
              Shaped(&C::antiquant_offset, {3, 32}))},
      {kContradiction, "antiquantMode: 2", Set(&C::antiquant_mode, 2)},
      {kContradiction, "antiquantMode: -1", Set(&C::antiquant_mode, -1)},
  };
  ExpectRefusals(good, refusals);
}

TEST(FusedInferRefusals, FourBitNumbers) {
  const FusedInferCase good{
      .scales = FusedScales::kSeparate, .bits = 4, .scale_form = 5};
  FusedInferCase first = good;
  first.version = 1;
  C(first).ExpectFailure(kContradiction, "key: data type INT32");
  first.int4 = true;
  C(first).ExpectFailure(kContradiction, "key: data type INT4");
  const auto prefix = [](aclDataType type, std::vector<int64_t> dims) {
    return [=](C& c) {
      c.key_prefix = c.value_prefix =
          c.caller.Input({.type = type, .dims = dims});
    };
  };
  const Form narrow{ACL_INT32, {2, 2, 5, 1}};
  const Refusals refusals = {
      {kContradiction, "keyAntiquantScale: shape [1]",
       All<C>(Shaped(&C::key_scale, {1}), Shaped(&C::value_scale, {1}))},
      {kContradiction, "key: shape [2, 2, 5, 1] has 8 channels per head, query",
       Keys(narrow, narrow)},
      {kContradiction, "keySharedPrefix: data type INT8, expected key's INT32",
       prefix(ACL_INT8, {1, 2, 3, 16})},
      {kContradiction, "keySharedPrefix: 8 channels per head, expected 16",
       prefix(ACL_INT32, {1, 2, 3, 1})},
      {kContradiction, "key: data type INT32 does not go with query's INT8",
       Formed(&C::query, {ACL_INT8, {2, 4, 3, 16}})},
  };
  ExpectRefusals(good, refusals);
  for (const int64_t mode : {2, 4, 5}) {
    FusedInferCase c = good;
    c.key_mode = c.value_mode = mode;
    if (mode > 3) {
      c.keys = FusedKeys::kPagesOfHeads;
      c.columns = 32;
      c.block_size = 16;
      c.kv_lengths = {20, 3};
    }
    SCOPED_TRACE(mode);
    C(c).ExpectFailure(kContradiction, "does not go with INT4 keys");
  }
}

// Views of INT4 of which no words can be made.
TEST(FusedInferRefusals, FourBitNumbersOfPartsOfWords) {
  struct View {
    std::vector<int64_t> dims, strides;
    int64_t offset;
  };
  const View views[] = {
      {{2, 2, 5, 12}, {120, 60, 12, 1}, 0},
      {{2, 2, 5, 16}, {200, 100, 20, 1}, 0},
      {{2, 2, 5, 16}, {320, 160, 32, 2}, 0},
      {{2, 2, 5, 16}, {160, 80, 16, 1}, 1},
  };
  for (const View& view : views) {
    FusedInferCase c{
        .scales = FusedScales::kSeparate, .bits = 4, .scale_form = 5};
    C call(c);
    aclTensor* const tensor = aclCreateTensor(
        view.dims.data(), view.dims.size(), ACL_INT4, view.strides.data(),
        view.offset, ACL_FORMAT_ND, view.dims.data(), view.dims.size(),
        call.keys[0]->data());
    call.other_keys = aclCreateTensorList(&tensor, 1);
    call.ExpectFailure(kContradiction, "INT4 of shape [2, 2, 5, 1");
    EXPECT_EQ(aclDestroyTensorList(call.other_keys), 0);
  }
}

TEST(FusedInferRefusals, BytesAsResults) {
  const FusedInferCase good{.out_scales = 64, .out_offset = true};
  const Refusals refusals = {
      {kContradiction, "quantScale2",
       All<C>(Without(&C::quant_scale2), Without(&C::quant_offset2))},
      {kContradiction, "quantScale2", Without(&C::quant_scale2)},
      {kContradiction, "quantScale2", Shaped(&C::quant_scale2, {63})},
      {kContradiction, "quantOffset2", Shaped(&C::quant_offset2, {1})},
      {kContradiction, "quantOffset2", Typed(&C::quant_offset2, ACL_BF16)},
      {kContradiction, "quantScale2: data type",
       All<C>(Typed(&C::quant_scale2, ACL_BF16),
              Typed(&C::quant_offset2, ACL_BF16))},
      {kContradiction, "deqScale1", Formed(&C::deq_scale1, {ACL_FLOAT, {1}})},
      {kContradiction, "quantScale1",
       Formed(&C::quant_scale1, {ACL_FLOAT, {1}})},
      {kContradiction, "deqScale2", Formed(&C::deq_scale2, {ACL_FLOAT, {1}})},
  };
  ExpectRefusals(good, refusals);
  C half;
  half.quant_scale2 = half.caller.Input({.type = ACL_FLOAT, .dims = {1}});
  half.ExpectFailure(kContradiction, "quantScale2");
  C packed({.layout = "TND",
            .lengths = {2, 1},
            .kv_lengths = {3, 2},
            .out_scales = 64});
  packed.caller.Replace(packed.quant_scale2, {ACL_FLOAT, {64}});
  packed.ExpectFailure(kContradiction, "quantScale2: shape");
}

TEST(FusedInferRefusals, OffsetsNeedKeysForAllRows) {
  FusedInferCase full{
      .mask = FusedMask::kFull, .out_scales = 1, .out_offset = true};
  const Refusals of_full = {
      {kContradiction, "quantOffset2", Tokens(5, -1)},
      {kContradiction, "quantOffset2", Tokens(-3, 5)},
  };
  ExpectRefusals(full, of_full);
  FusedInferCase causal{.rows = 3,
                        .columns = 2,
                        .mask = FusedMask::kSquare,
                        .sparse_mode = 2,
                        .out_scales = 1,
                        .out_offset = true};
  const Refusals of_causal = {{kContradiction, "quantOffset2", Mode(3)}};
  ExpectRefusals(causal, of_causal);
  FusedInferCase band{
      .mask = FusedMask::kSquare, .sparse_mode = 4, .out_scales = 1};
  const Refusals of_band = {
      {kContradiction, "nextTokens", Tokens(5, -1)},
      {kContradiction, "preTokens", Tokens(-1, 5)},
  };
  ExpectRefusals(band, of_band);
  band.rows = 5;
  band.columns = 2;
  band.out_offset = true;
  const Refusals of_few = {{kContradiction, "quantOffset2", Tokens(5, 2)}};
  ExpectRefusals(band, of_few);
}

TEST(FusedInferRefusals, QueriesOfBytes) {
  const FusedInferCase good{
      .type = ACL_BF16, .kv_heads = 1, .rope_dim = 8, .latent = true};
  const Form float16{.dims = {2, 1, 5, 16}};
  const auto ropes = [](aclDataType type) {
    return All<C>(Typed(&C::query_rope, type), Typed(&C::key_rope, type));
  };
  const Refusals refusals = {
      {kContradiction, "dequantScaleQuery: absent", Without(&C::query_scale)},
      {kContradiction, "queryQuantMode: 0, expected 3", Set(&C::query_mode, 0)},
      {kContradiction, "queryQuantMode: 2, expected 3", Set(&C::query_mode, 2)},
      {kContradiction, "without dequantScaleQuery",
       All<C>(Without(&C::query_scale), Set(&C::query_mode, 0),
              ropes(ACL_FLOAT16), Typed(&C::out, ACL_FLOAT16))},
      {kInvalid, "dequantScaleQuery: data type",
       Typed(&C::query_scale, ACL_FLOAT16)},
      {kContradiction, "dequantScaleQuery: shape [2, 3, 4], expected [2, 4, 3]",
       Shaped(&C::query_scale, {2, 3, 4})},
      {kContradiction, "dequantScaleQuery: shape",
       Shaped(&C::query_scale, {2, 4, 3, 1})},
      {kContradiction, "keyAntiquantScale: absent", Without(&C::key_scale)},
      {kContradiction, "valueAntiquantScale: absent", Without(&C::value_scale)},
      {kContradiction, "keyAntiquantScale: data type",
       Typed(&C::key_scale, ACL_BF16)},
      {kContradiction, "valueAntiquantScale: shape",
       Shaped(&C::value_scale, {2})},
      {kContradiction, "keyAntiquantOffset: given",
       Formed(&C::key_offset, {ACL_FLOAT, {1}})},
      {kContradiction, "valueAntiquantOffset: given",
       Formed(&C::value_offset, {ACL_FLOAT, {1}})},
      {kContradiction, "deqScale1: given",
       Formed(&C::deq_scale1, {ACL_FLOAT, {1}})},
      {kContradiction, "quantScale1: given",
       Formed(&C::quant_scale1, {ACL_FLOAT, {1}})},
      {kContradiction, "deqScale2: given",
       Formed(&C::deq_scale2, {ACL_FLOAT, {1}})},
      {kContradiction, "keyAntiquantMode: 1", Set(&C::key_mode, 1)},
      {kContradiction, "valueAntiquantMode: 1", Set(&C::value_mode, 1)},
      {kContradiction, "queryRope: absent",
       All<C>(Without(&C::query_rope), Without(&C::key_rope))},
      {kContradiction, "queryRope: data type", ropes(ACL_FLOAT16)},
      {kContradiction, "keyRope: data type", Typed(&C::key_rope, ACL_FLOAT16)},
      {kContradiction, "attentionOut: data type", Typed(&C::out, ACL_FLOAT16)},
      {kContradiction, "key: data type", Keys(float16, float16)},
      {kContradiction, "pseShift", Formed(&C::pse, {ACL_BF16, {2, 4, 3, 5}})},
      {kContradiction, "quantScale2: data type BFLOAT16",
       All<C>(Typed(&C::out, ACL_INT8),
              Formed(&C::quant_scale2, {ACL_BF16, {1}}))},
  };
  ExpectRefusals(good, refusals);
}

TEST(FusedInferRefusals, BytesThroughout) {
  const FusedInferCase good{.int8 = true};
  const Refusals refusals = {
      {kContradiction, "deqScale1", Without(&C::deq_scale1)},
      {kContradiction, "quantScale1", Without(&C::quant_scale1)},
      {kContradiction, "deqScale2", Without(&C::deq_scale2)},
      {kContradiction, "deqScale1", Shaped(&C::deq_scale1, {2})},
      {kContradiction, "attentionOut: data type", Typed(&C::out, ACL_BF16)},
      {kContradiction, "quantScale2",
       Formed(&C::quant_scale2, {ACL_FLOAT, {1}})},
  };
  ExpectRefusals(good, refusals);
  C decode({.rows = 1, .int8 = true});
  decode.ExpectFailure(kContradiction, "query");
  C one({.layout = "NSD", .sequences = 1, .int8 = true});
  one.ExpectFailure(kContradiction, "query: data type INT8 does not go with");
}

}  // namespace
}  // namespace flashacl::testing
