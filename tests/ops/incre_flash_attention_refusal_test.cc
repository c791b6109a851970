// SPDX-License-Identifier: Apache-2.0
// What aclnnIncreFlashAttentionV4 refuses: one table row per line of its
// validation table.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/testing/decode_call.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kContradiction = 561002;

using C = DecodeCall;
using Refusals = std::vector<Refusal<C>>;

Change<C> Keys(Form key, Form value) {
  return [=](C& c) {
    c.keys = {c.caller.Input(key)};
    c.values = {c.caller.Input(value)};
  };
}

Change<C> Keys(std::vector<int64_t> dims) {
  return Keys({.dims = dims}, {.dims = dims});
}

Change<C> Lengths(std::vector<int64_t> values) {
  return [=](C& c) { c.lengths = c.caller.Array(values); };
}

TEST(DecodeRefusals, NullMembers) {
  const Refusals refusals = {
      {kNull, "key[0]", [](C& c) { c.keys = {nullptr}; }},
  };
  ExpectRefusals({}, refusals);
}

TEST(DecodeRefusals, Types) {
  const std::vector<int64_t> kv{2, 2, 7, 16};
  const Form int8{.type = ACL_INT8, .dims = kv};
  const Form bf16{.type = ACL_BF16, .dims = kv};
  const Form f16{.dims = kv};
  const Refusals refusals = {
      {kInvalid, "key: data type", Keys(bf16, bf16)},
      {kInvalid, "value: data type", Keys(int8, f16)},
      {kInvalid, "value: data type", Keys(f16, int8)},
      {kInvalid, "attentionOut: data type", Typed(&C::out, ACL_BF16)},
      {kInvalid, "pseShift: data type",
       Formed(&C::pse, {ACL_BF16, {2, 4, 1, 7}})},
      {kInvalid, "antiquantScale: data type",
       Formed(&C::antiquant_scale, {ACL_INT8, {2}})},
  };
  ExpectRefusals({}, refusals);
}

Refusal<C> Layout(const char* text) {
  return {kContradiction, "inputLayout", Set(&C::layout, text)};
}

TEST(DecodeRefusals, Scalars) {
  const Refusals refusals = {
      Layout(""),
      Layout("BNSD_BSND"),
      Layout("bsh"),
      Layout("TND"),
      Layout("NSD"),
      Layout("SH"),
      {kContradiction, "innerPrecise: 2", Set(&C::inner_precise, 2)},
      {kContradiction, "numHeads: 0", Set(&C::heads, 0)},
      {kContradiction, "query: 4 heads", Set(&C::heads, 8)},
      {kContradiction, "numKeyValueHeads: 3", Set(&C::kv_heads, 3)},
      {kContradiction, "key: 2 heads", Set(&C::kv_heads, 4)},
  };
  ExpectRefusals({}, refusals);
}

TEST(DecodeRefusals, Shapes) {
  const auto all = [](std::vector<int64_t> row, std::vector<int64_t> kv) {
    return [=](C& c) {
      c.caller.Replace(c.query, {.dims = row});
      c.caller.Replace(c.out, {.dims = row});
      Keys(kv)(c);
      c.heads = row[1];
      c.kv_heads = kv[1];
    };
  };
  const Refusals refusals = {
      {kContradiction, "query: 2 rows", all({2, 4, 2, 16}, {2, 2, 7, 16})},
      {kContradiction, "query: 16 rows", all({2, 4, 16, 16}, {2, 2, 7, 16})},
      {kContradiction, "query: shape", all({2, 4, 0, 16}, {2, 2, 7, 16})},
      {kContradiction, "query: shape", all({0, 4, 1, 16}, {0, 2, 7, 16})},
      {kContradiction, "head dim 513", all({1, 1, 1, 513}, {1, 1, 1, 513})},
      {kContradiction, "65 query heads", all({1, 65, 1, 16}, {1, 1, 7, 16})},
      {kContradiction, "numHeads: 257", all({1, 257, 1, 16}, {1, 257, 1, 16})},
      {kContradiction, "query: 65537 sequences",
       all({65537, 1, 1, 1}, {65537, 1, 1, 1})},
      {kContradiction, "query: shape", Formed(&C::query, {.dims = {2, 1, 64}})},
      {kContradiction, "attentionOut: shape",
       Formed(&C::out, {.dims = {2, 1, 4, 16}})},
      {kContradiction, "attentionOut: shape",
       Formed(&C::out, {.dims = {0, 4, 1, 16}})},
      {kContradiction, "value: shape",
       Keys({.dims = {2, 2, 7, 16}}, {.dims = {2, 2, 8, 16}})},
      {kContradiction, "value: shape",
       Keys({.dims = {2, 2, 7, 16}}, {.dims = {2, 2, 7, 8}})},
      {kContradiction,
       "key: shape [2, 2, 7, 8] has 8 channels per head, query has 16",
       Keys({2, 2, 7, 8})},
      {kContradiction, "key: shape", Keys({2, 7, 32})},
      {kContradiction, "key: 1 tensors", Keys({3, 2, 7, 16})},
  };
  ExpectRefusals({}, refusals);
}

TEST(DecodeRefusals, FoldedHeads) {
  const Refusals refusals = {
      {kContradiction, "query", Set(&C::heads, 6)},
      {kContradiction, "key: last axis 33", Keys({2, 7, 33})},
      {kContradiction,
       "key: shape [2, 7, 64] has 64 / numKeyValueHeads 2 = 32 channels per "
       "head, query has 64 / numHeads 4 = 16",
       Keys({2, 7, 64})},
      {kContradiction,
       "key: shape [2, 7, 32] has 32 / numKeyValueHeads 2 = 16 channels per "
       "head, query has 64 / numHeads 2 = 32",
       Set(&C::heads, 2)},
      {kContradiction,
       "key: shape [2, 7, 32] has 32 / 4 = 8 channels per head "
       "(numKeyValueHeads 0 stands for numHeads 4), query has 64 / numHeads 4 "
       "= 16",
       Set(&C::kv_heads, 0)},
  };
  ExpectRefusals({.layout = "BSH", .kv_heads = 2}, refusals);
}

TEST(DecodeRefusals, Lists) {
  const auto members = [](std::vector<std::vector<int64_t>> keys,
                          size_t values) {
    return [=](C& c) {
      c.keys.clear();
      for (const auto& dims : keys) {
        c.keys.push_back(c.caller.Input({.dims = dims}));
      }
      c.values = c.keys;
      c.values.resize(values);
    };
  };
  const std::vector<int64_t> one{1, 2, 7, 16};
  const Refusals refusals = {
      {kContradiction, "key: no tensors", members({}, 0)},
      {kContradiction, "key", members({{0}}, 1)},
      {kContradiction, "key: 2 tensors", members({one, one}, 2)},
      {kContradiction, "key: 4 tensors", members({one, one, one, one}, 4)},
      {kContradiction, "value: 2 tensors", members({one, one, one}, 2)},
      {kContradiction, "key: 2 sequences",
       members({one, {2, 2, 7, 16}, one}, 3)},
      {kContradiction, "key: 4 heads", members({one, {1, 4, 7, 16}, one}, 3)},
      {kContradiction, "key: shape [1, 2, 7, 8] has 8",
       members({one, one, {1, 2, 7, 8}}, 3)},
      {kContradiction, "key: shape", members({one, one, {1, 7, 32}}, 3)},
      {kContradiction, "actualSeqLengths: 4 for sequence 1",
       Lengths({7, 4, 7})},
  };
  ExpectRefusals(
      {.keys = DecodeKeys::kList, .sequences = 3, .own_columns = {7, 3, 9}},
      refusals);
  C many({.keys = DecodeKeys::kList,
          .sequences = 257,
          .heads = 1,
          .kv_heads = 1,
          .dim = 1,
          .own_columns = std::vector<int64_t>(257, 1)});
  many.ExpectFailure(kContradiction, "key: 257 tensors");
}

TEST(DecodeRefusals, LengthsMasksAndBiases) {
  const auto mask = [](std::vector<int64_t> dims) {
    return Formed(&C::mask, {.type = ACL_BOOL, .dims = dims});
  };
  const auto pse = [](std::vector<int64_t> dims) {
    return Formed(&C::pse, {.dims = dims});
  };
  const Refusals refusals = {
      {kContradiction, "actualSeqLengths: 2", Lengths({1, 1})},
      {kContradiction, "actualSeqLengths: -1 for sequence 1",
       Lengths({1, -1, 1})},
      {kContradiction, "actualSeqLengths: 8 for sequence 2",
       Lengths({1, 1, 8})},
      {kContradiction, "actualSeqLengths: 8", Lengths({8})},
      {kContradiction, "expected 0 to 7; it is 7 and 5 as INT32",
       Lengths({(int64_t{5} << 32) + 7})},
      {kContradiction, "attenMask: shape [1, 7]", mask({1, 7})},
      {kContradiction, "attenMask: shape [4, 7]", mask({4, 7})},
      {kContradiction, "attenMask: shape [3, 6]", mask({3, 6})},
      {kContradiction, "attenMask: shape []", mask({})},
      {kContradiction, "attenMask: shape [21]", mask({21})},
      {kContradiction, "attenMask: shape [3, 2, 7]", mask({3, 2, 7})},
      {kContradiction, "attenMask: shape", mask({3, 4, 1, 7})},
      {kContradiction, "attenMask: shape", mask({3, 1, 1, 1, 7})},
      {kContradiction, "pseShift: shape []", pse({})},
      {kContradiction, "pseShift: shape", pse({4, 1, 7})},
      {kContradiction, "pseShift: shape", pse({2, 4, 1, 7})},
      {kContradiction, "pseShift: shape", pse({3, 1, 1, 7})},
      {kContradiction, "pseShift: shape", pse({3, 4, 2, 7})},
      {kContradiction, "pseShift: shape", pse({3, 4, 1, 6})},
  };
  ExpectRefusals({.sequences = 3}, refusals);
}

DecodeCase Paged() {
  return {.keys = DecodeKeys::kBlocksOfRows,
          .columns = 64,
          .block_size = 32,
          .lengths = {40, 3}};
}

TEST(DecodeRefusals, Pages) {
  const auto table = [](std::vector<int64_t> dims) {
    return Formed(&C::block_table, {.type = ACL_INT32, .dims = dims});
  };
  const auto block_size = [](int64_t size, aclDataType type) {
    return [=](C& c) {
      c.block_size = size;
      const Form form{.type = type,
                      .dims = {6, std::max<int64_t>(size, 0), 32}};
      Keys(form, form)(c);
      if (type == ACL_INT8) {
        c.antiquant_scale = c.caller.Input({.dims = {2}});
      }
    };
  };
  const Refusals refusals = {
      {kContradiction, "blockSize: 0", block_size(0, ACL_FLOAT16)},
      {kContradiction, "blockSize: -1", block_size(-1, ACL_FLOAT16)},
      {kContradiction, "blockSize: 528", block_size(528, ACL_FLOAT16)},
      {kContradiction, "blockSize: 24", block_size(24, ACL_FLOAT16)},
      {kContradiction, "blockSize: 48", block_size(48, ACL_INT8)},
      {kContradiction, "key: shape", Set(&C::block_size, 16)},
      {kContradiction, "actualSeqLengths: absent", Set(&C::lengths, nullptr)},
      {kContradiction, "actualSeqLengths: absent", Lengths({})},
      {kContradiction, "actualSeqLengths: 65", Lengths({65, 3})},
      {kContradiction, "blocktable: shape []", table({})},
      {kContradiction, "blocktable: shape [4]", table({4})},
      {kContradiction, "blocktable: shape", table({2, 1, 2})},
      {kContradiction, "blocktable: shape [1, 4]", table({1, 4})},
      {kContradiction, "blocktable: shape [2, 0]", table({2, 0})},
  };
  ExpectRefusals(Paged(), refusals);
}

TEST(DecodeRefusals, CachesOfPages) {
  const Refusals refusals = {
      {kContradiction, "key: 65536 channels",
       [](C& c) {
         const Form form{.dims = {6, 32, 65536}, .strides = {0, 0, 0}};
         Keys(form, form)(c);
       }},
      {kContradiction, "key: shape [6, 32, 64] has 64 / numKeyValueHeads 2",
       Keys({6, 32, 64})},
      {kContradiction, "key: 2 tensors",
       [](C& c) {
         c.keys.push_back(c.keys[0]);
         c.values.push_back(c.values[0]);
       }},
      {kContradiction, "key: shape", Keys({6, 1024})},
      {kContradiction, "key: shape", Keys({6, 2, 1, 32, 16})},
      {kContradiction, "attenMask: shape",
       Formed(&C::mask, {.type = ACL_BOOL, .dims = {2, 63}})},
      {kContradiction, "pseShift: shape",
       Formed(&C::pse, {.dims = {2, 4, 1, 63}})},
  };
  ExpectRefusals(Paged(), refusals);
  for (const char* layout : {"BSH", "BSND"}) {
    DecodeCase c = Paged();
    c.layout = layout;
    C call(c);
    Keys({6, 2, 32, 16})(call);
    call.ExpectFailure(kContradiction, "key: shape [6, 2, 32, 16]");
  }
}

TEST(DecodeRefusals, LeftPaddingOfEachSequence) {
  C call({.lengths = {3, 6}, .padding = 1});
  call.padding = call.caller.Input({.type = ACL_INT64, .dims = {2}});
  call.ExpectFailure(kContradiction, "kvPaddingSize: shape [2], expected one");
  call.lengths = nullptr;  // without which it is ignored
  EXPECT_TRUE(call.Run());
}

TEST(DecodeRefusals, KeyScales) {
  const auto scale = [](std::vector<int64_t> dims,
                        aclDataType type = ACL_FLOAT16) {
    return Formed(&C::antiquant_scale, {.type = type, .dims = dims});
  };
  const auto offset = [](std::vector<int64_t> dims,
                         aclDataType type = ACL_FLOAT16) {
    return Formed(&C::antiquant_offset, {.type = type, .dims = dims});
  };
  const Refusals int8 = {
      {kContradiction, "antiquantScale: absent", Without(&C::antiquant_scale)},
      {kContradiction, "antiquantScale: data type", scale({2}, ACL_BF16)},
      {kContradiction, "antiquantScale: data type", scale({2}, ACL_FLOAT)},
      {kContradiction, "antiquantScale: shape [1]", scale({1})},
      {kContradiction, "antiquantScale: shape []", scale({})},
      {kContradiction, "antiquantScale: shape [2, 64]", scale({2, 64})},
      {kContradiction, "antiquantScale: shape", scale({2, 16, 2})},
      {kContradiction, "antiquantOffset: FLOAT16", offset({2})},
      {kContradiction, "antiquantOffset", offset({2, 32}, ACL_BF16)},
  };
  ExpectRefusals({.key_scales = Scales::kH}, int8);
  const Refusals f16 = {
      {kContradiction, "antiquantScale: given", scale({2})},
      {kContradiction, "antiquantOffset: given without", offset({2})},
  };
  ExpectRefusals({}, f16);
}

TEST(DecodeRefusals, OutScales) {
  const auto input = [](DeviceTensor* C::*member, std::vector<int64_t> dims,
                        aclDataType type = ACL_FLOAT) {
    return Formed(member, {.type = type, .dims = dims});
  };
  const Refusals int8 = {
      {kContradiction, "quantScale2: absent", Without(&C::quant_scale2)},
      {kContradiction, "quantScale2: data type",
       input(&C::quant_scale2, {1}, ACL_BF16)},
      {kContradiction, "quantScale2: shape [32]",
       input(&C::quant_scale2, {32})},
      {kContradiction, "quantScale2: shape [16, 4]",
       input(&C::quant_scale2, {16, 4})},
      {kContradiction, "quantOffset2: FLOAT", input(&C::quant_offset2, {2})},
      {kContradiction, "quantOffset2: BF",
       input(&C::quant_offset2, {1}, ACL_BF16)},
      {kContradiction, "dequantScale1: given", input(&C::dequant_scale1, {1})},
      {kContradiction, "dequantScale1: given", input(&C::dequant_scale1, {})},
      {kContradiction, "dequantScale1: given",
       input(&C::dequant_scale1, {1}, ACL_UINT64)},
      {kContradiction, "quantScale1: given", input(&C::quant_scale1, {1})},
      {kContradiction, "dequantScale2: given", input(&C::dequant_scale2, {1})},
  };
  ExpectRefusals({.out_scales = Scales::kTensor}, int8);
  const Refusals f16 = {
      {kContradiction, "quantScale2: given", input(&C::quant_scale2, {1})},
      {kContradiction, "quantOffset2: given without",
       input(&C::quant_offset2, {1})},
      {kContradiction, "quantScale1: given", input(&C::quant_scale1, {1})},
      {kContradiction, "quantScale2: absent",
       Formed(&C::out, {.type = ACL_INT8, .dims = {2, 4, 1, 16}})},
  };
  ExpectRefusals({}, f16);
}

}  // namespace
}  // namespace flashacl::testing
