// SPDX-License-Identifier: Apache-2.0
// What aclnnFusedInferAttentionScore V5 refuses: one table row per line of its
// document. What goes beside queries and keys is in
// fused_infer_scales_refusal_test.cc.
#include "tests/testing/fused_infer_refusal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/testing/fused_infer_call.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

using namespace fused;  // NOLINT: what all rows are made of

TEST(FusedInferRefusals, NullMembersAndLogSums) {
  const Refusals refusals = {
      {kNull, "key", Set(&C::null_keys, true)},
      {kNull, "value", Set(&C::null_values, true)},
      {kNull, "key[0]", [](C& c) { c.keys = {nullptr}; }},
      {kNull, "value[0]", [](C& c) { c.values = {nullptr}; }},
      {kNull, "softmaxLse", Without(&C::lse)},
      {kNull, "query", Without(&C::query)},
      {kNull, "attentionOut", Without(&C::out)},
      {kNull, "inputLayout", Set(&C::layout, nullptr)},
  };
  ExpectRefusals({}, refusals);
}

TEST(FusedInferRefusals, TypesThatNobodyHas) {
  const std::vector<int64_t> kv{2, 2, 5, 16};
  const Form f32{.type = ACL_FLOAT, .dims = kv};
  const Form f16{.dims = kv};
  const Form nz{.dims = kv, .format = ACL_FORMAT_FRACTAL_NZ};
  const Refusals refusals = {
      {kInvalid, "query: data type", Typed(&C::query, ACL_FLOAT)},
      {kInvalid, "key", Keys(f32, f32)},
      {kInvalid, "value", Keys(f16, f32)},
      {kInvalid, "key", Keys(nz, f16)},
      {kInvalid, "attentionOut: data type", Typed(&C::out, ACL_FLOAT)},
      {kInvalid, "softmaxLse: data type", Typed(&C::lse, ACL_FLOAT16)},
      {kInvalid, "attenMask: data type",
       Formed(&C::mask, {ACL_FLOAT16, {2, 3, 5}})},
      {kInvalid, "pseShift: data type",
       Formed(&C::pse, {ACL_FLOAT, {2, 4, 3, 5}})},
      {kInvalid, "blockTable: data type",
       Formed(&C::block_table, {ACL_INT64, {2, 3}})},
      {kInvalid, "queryPaddingSize: data type",
       Formed(&C::query_padding, {ACL_INT32, {1}})},
      {kInvalid, "kvPaddingSize: data type",
       Formed(&C::kv_padding, {ACL_INT32, {1}})},
      {kInvalid, "quantScale2: data type",
       Formed(&C::quant_scale2, {ACL_INT8, {1}})},
      {kInvalid, "queryRope: data type",
       Formed(&C::query_rope, {ACL_FLOAT, {2, 4, 3, 8}})},
  };
  ExpectRefusals({}, refusals);
}

TEST(FusedInferRefusals, TypesThatDoNotGoTogether) {
  const std::vector<int64_t> kv{2, 2, 5, 16};
  const Form int8{.type = ACL_INT8, .dims = kv};
  const Form bf16{.type = ACL_BF16, .dims = kv};
  const Form int4{.type = ACL_INT32, .dims = {2, 2, 5, 2}};
  const Form f16{.dims = kv};
  const Refusals refusals = {
      {kContradiction, "key: data type", Keys(bf16, bf16)},
      {kContradiction, "value: data type", Keys(f16, bf16)},
      {kContradiction, "value: data type", Keys(f16, int8)},
      {kContradiction, "value: data type", Keys(int8, f16)},
      {kContradiction, "attentionOut: data type", Typed(&C::out, ACL_BF16)},
      {kContradiction, "pseShift: data type",
       Formed(&C::pse, {ACL_BF16, {2, 4, 3, 5}})},
      {kContradiction, "key: data type", Keys(bf16, f16)},
      {kContradiction, "antiquantScale: absent", Keys(int4, int4)},
      {kContradiction, "value: data type", Keys(int4, int8)},
  };
  ExpectRefusals({}, refusals);
}

Refusal<C> Layout(const char* text) {
  return {kContradiction, "inputLayout", Set(&C::layout, text)};
}

TEST(FusedInferRefusals, LayoutsAndNumbers) {
  const Refusals refusals = {
      Layout(""),
      Layout("bnsd"),
      Layout("BNSDX"),
      Layout("BNS"),
      Layout("SH"),
      Layout("TND_TND"),
      Layout("BSH_BSND"),
      Layout("BNSD_BSH"),
      {kContradiction, "innerPrecise: 5", Set(&C::inner_precise, 5)},
      {kContradiction, "innerPrecise: -1", Set(&C::inner_precise, -1)},
      {kContradiction, "numHeads: 0", Set(&C::heads, 0)},
      {kContradiction, "numHeads: -4", Set(&C::heads, -4)},
      {kContradiction, "query: 4 heads", Set(&C::heads, 8)},
      {kContradiction, "numKeyValueHeads: 3", Set(&C::kv_heads, 3)},
      {kContradiction, "numKeyValueHeads: -1", Set(&C::kv_heads, -1)},
      {kContradiction, "key: 2 heads", Set(&C::kv_heads, 4)},
      {kContradiction, "sparseMode: 5", Set(&C::sparse_mode, 5)},
      {kContradiction, "sparseMode: 10", Set(&C::sparse_mode, 10)},
      {kContradiction, "sparseMode: -1", Set(&C::sparse_mode, -1)},
      {kContradiction, "queryQuantMode: 3", Set(&C::query_mode, 3)},
      {kContradiction, "dequantScaleQuery",
       Formed(&C::query_scale, {ACL_FLOAT, {2, 4, 3}})},
      {kContradiction, "pseType: 1", Set(&C::pse_type, 1)},
      {kContradiction, "keyAntiquantMode: 1", Set(&C::key_mode, 1)},
      {kContradiction, "valueAntiquantMode: 1", Set(&C::value_mode, 1)},
      {kContradiction, "keyRopeAntiquantScale",
       Formed(&C::key_rope_scale, {ACL_FLOAT, {1}})},
  };
  ExpectRefusals({}, refusals);
}

TEST(FusedInferRefusals, Shapes) {
  const auto all = [](std::vector<int64_t> row, std::vector<int64_t> kv) {
    return [=](C& c) {
      c.caller.Replace(c.query, {.dims = row});
      c.caller.Replace(c.out, {.dims = row});
      c.caller.Replace(c.lse, {ACL_FLOAT, {row[0], row[1], row[2], 1}});
      Keys(kv)(c);
      c.heads = row[1];
      c.kv_heads = kv[1];
    };
  };
  const Refusals refusals = {
      {kContradiction, "query: shape", Formed(&C::query, {.dims = {2, 3, 64}})},
      {kContradiction, "query: shape",
       Formed(&C::query, {.dims = {2, 4, 0, 16}})},
      {kContradiction, "head dim 513", all({1, 1, 2, 513}, {1, 1, 1, 513})},
      {kContradiction, "257", all({1, 257, 2, 16}, {1, 257, 1, 16})},
      {kContradiction, "attentionOut: shape",
       Formed(&C::out, {.dims = {2, 3, 4, 16}})},
      {kContradiction, "attentionOut: shape",
       Formed(&C::out, {.dims = {2, 4, 3, 8}})},
      {kContradiction, "softmaxLse: shape",
       Formed(&C::lse, {ACL_FLOAT, {2, 4, 3}})},
      {kContradiction, "softmaxLse: shape",
       Formed(&C::lse, {ACL_FLOAT, {2, 3, 4, 1}})},
      {kContradiction, "softmaxLse: shape",
       Formed(&C::lse, {ACL_FLOAT, {2, 4, 3, 8}})},
      {kContradiction, "softmaxLse: shape",
       Formed(&C::lse, {ACL_FLOAT, {2, 4, 3, 0}})},
      {kContradiction, "key", Keys({2, 2, 5, 8})},
      {kContradiction, "key", Keys({2, 5, 32})},
      {kContradiction, "key", Keys({3, 2, 5, 16})},
      {kContradiction, "value",
       Keys({.dims = {2, 2, 5, 16}}, {.dims = {2, 2, 6, 16}})},
      {kContradiction, "value",
       Keys({.dims = {2, 2, 5, 16}}, {.dims = {2, 4, 5, 16}})},
  };
  ExpectRefusals({}, refusals);
}

TEST(FusedInferRefusals, FoldedHeads) {
  const Refusals refusals = {
      {kContradiction, "query", Set(&C::heads, 6)},
      {kContradiction, "key", Keys({2, 5, 33})},
      {kContradiction,
       "key: shape [2, 5, 64] has 64 / numKeyValueHeads 2 = 32 channels per "
       "head, query has 64 / numHeads 4 = 16",
       Keys({2, 5, 64})},
      {kContradiction, "numKeyValueHeads 0 stands for numHeads 4",
       Set(&C::kv_heads, 0)},
  };
  ExpectRefusals({.layout = "BSH"}, refusals);
}

TEST(FusedInferRefusals, Lists) {
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
      {kContradiction, "key", members({one, one}, 2)},
      {kContradiction, "key", members({one, one, one, one}, 4)},
      {kContradiction, "value", members({one, one, one}, 2)},
      {kContradiction, "key", members({one, {2, 2, 7, 16}, one}, 3)},
      {kContradiction, "key", members({one, {1, 4, 7, 16}, one}, 3)},
      {kContradiction, "key", members({one, one, {1, 2, 7, 8}}, 3)},
      {kContradiction, "value",
       [](C& c) {
         c.values[1] = c.caller.Input({.dims = {1, 2, 8, 16}});
       }},
      {kContradiction, "actualSeqLengthsKv: 4 for sequence 1",
       Columns({7, 4, 7})},
      {kContradiction, "key: 3 tensors in the list, expected 1 with pages",
       [](C& c) {
         c.block_table = c.caller.Input({.type = ACL_INT32, .dims = {3, 2}});
         c.block_size = 16;
       }},
      {kContradiction, "key: 3 tensors in the list, expected 1 in a layout",
       Set(&C::layout, "BNSD_NBSD")},
      {kContradiction, "kvPaddingSize",
       All<C>(Formed(&C::kv_padding, {ACL_INT64, {1}}), Columns({7, 3, 9}))},
      {kContradiction, "keySharedPrefix",
       [](C& c) {
         c.key_prefix = c.caller.Input({.dims = {1, 2, 4, 16}});
         c.value_prefix = c.key_prefix;
       }},
  };
  ExpectRefusals(
      {.sequences = 3, .keys = FusedKeys::kList, .own_columns = {7, 3, 9}},
      refusals);
  C many({.sequences = 257,
          .heads = 1,
          .kv_heads = 1,
          .keys = FusedKeys::kList,
          .own_columns = std::vector<int64_t>(257, 1)});
  many.ExpectFailure(kContradiction, "key: 257 tensors in the list");
}

TEST(FusedInferRefusals, Lengths) {
  const Refusals refusals = {
      {kContradiction, "actualSeqLengths: 2", Rows({1, 1})},
      {kContradiction, "actualSeqLengths: -1 for sequence 1", Rows({1, -1, 1})},
      {kContradiction, "actualSeqLengths: 4 for sequence 2", Rows({1, 1, 4})},
      {kContradiction, "actualSeqLengths: 4", Rows({4})},
      {kContradiction, "actualSeqLengthsKv: 2", Columns({1, 1})},
      {kContradiction, "actualSeqLengthsKv: -1 for sequence 1",
       Columns({1, -1, 1})},
      {kContradiction, "actualSeqLengthsKv: 6 for sequence 2",
       Columns({1, 1, 6})},
      {kContradiction, "actualSeqLengthsKv: 6", Columns({6})},
      {kContradiction, "expected 0 to 5; it is 5 and 1 as INT32",
       Columns({(int64_t{1} << 32) + 5})},
  };
  ExpectRefusals({.sequences = 3}, refusals);
}

TEST(FusedInferRefusals, EndsOfPackedSequences) {
  const Refusals refusals = {
      {kContradiction, "actualSeqLengths: absent", Set(&C::lengths, nullptr)},
      {kContradiction, "actualSeqLengthsKv: absent",
       Set(&C::kv_lengths, nullptr)},
      {kContradiction, "actualSeqLengths: ", Rows({3, 2})},
      {kContradiction, "actualSeqLengths: ", Rows({-1, 3})},
      {kContradiction, "actualSeqLengths: ", Rows({2, 4})},
      {kContradiction, "for ends ascend; it is 2 and 3 as INT32",
       Rows({(int64_t{3} << 32) + 2, 3})},
      {kContradiction, "actualSeqLengthsKv: ", Columns({6, 5})},
      {kContradiction, "actualSeqLengthsKv: ", Columns({3, 4})},
      {kContradiction, "actualSeqLengthsKv: ", Columns({3, 6})},
      {kContradiction, "actualSeqLengthsKv: ", Columns({5})},
      {kContradiction, "actualSeqLengthsKv: ", Columns({3, 4, 5})},
  };
  ExpectRefusals(Packed(), refusals);
  const Refusals in_pages = {
      {kContradiction, "actualSeqLengthsKv: ", Columns({5})},
      {kContradiction, "actualSeqLengthsKv: 33", Columns({3, 33})},
      {kContradiction, "expected 0 to 32; it is 3 and 32 as INT32",
       Columns({(int64_t{32} << 32) + 3, 3})},
      {kContradiction, "actualSeqLengthsKv: -1", Columns({-1, 3})},
      {kContradiction, "blockTable: shape [1, 2]",
       Formed(&C::block_table, {ACL_INT32, {1, 2}})},
      {kContradiction, "actualSeqLengthsKv: absent",
       Set(&C::kv_lengths, nullptr)},
  };
  FusedInferCase paged = Packed();
  paged.keys = FusedKeys::kPagesOfRows;
  paged.columns = 32;
  paged.block_size = 16;
  ExpectRefusals(paged, in_pages);
}

TEST(FusedInferRefusals, MasksAndBiases) {
  const Refusals refusals = {
      {kContradiction, "attenMask: absent", Mode(1)},
      {kContradiction, "attenMask: absent", Mode(2)},
      {kContradiction, "attenMask: absent", Mode(3)},
      {kContradiction, "attenMask: absent", Mode(4)},
      {kContradiction, "attenMask: absent", Mode(9)},
      {kContradiction, "attenMask: shape [2, 5]", Mask({2, 5})},
      {kContradiction, "attenMask: shape [3, 4]", Mask({3, 4})},
      {kContradiction, "attenMask: shape [15]", Mask({15})},
      {kContradiction, "attenMask: shape [3, 3, 5]", Mask({3, 3, 5})},
      {kContradiction, "attenMask: shape", Mask({2, 2, 3, 5})},
      {kContradiction, "attenMask: shape", Mask({2, 1, 1, 3, 5})},
      {kContradiction, "attenMask: shape", All<C>(Mode(2), Mask({3, 5}))},
      {kContradiction, "attenMask: shape", All<C>(Mode(3), Mask({2048, 2047}))},
      {kContradiction, "attenMask: shape", All<C>(Mode(9), Mask({2, 3, 5}))},
      {kContradiction, "attenMask: shape", All<C>(Mode(9), Mask({1, 3, 3}))},
      {kContradiction, "pseShift: shape", Bias({4, 3, 5})},
      {kContradiction, "pseShift: shape", Bias({3, 4, 3, 5})},
      {kContradiction, "pseShift: shape", Bias({2, 1, 3, 5})},
      {kContradiction, "pseShift: shape", Bias({2, 4, 2, 5})},
      {kContradiction, "pseShift: shape", Bias({2, 4, 3, 4})},
  };
  ExpectRefusals({}, refusals);
  // Of several rows there may be more, of one not.
  const Refusals of_one_row = {
      {kContradiction, "pseShift: shape [2, 4, 2, 5]", Bias({2, 4, 2, 5})}};
  ExpectRefusals({.rows = 1}, of_one_row);
}

TEST(FusedInferRefusals, BandsOfNothing) {
  const Refusals refusals = {
      {kContradiction, "preTokens: -1", Tokens(-1, -1)},
      {kContradiction, "nextTokens -3", Tokens(2, -3)},
      {kContradiction, "preTokens: -3", Tokens(-3, 2)},
  };
  FusedInferCase c{.mask = FusedMask::kFull};
  ExpectRefusals(c, refusals);
  c.mask = FusedMask::kSquare;
  c.sparse_mode = 4;
  ExpectRefusals(c, refusals);
}

TEST(FusedInferRefusals, Trees) {
  const FusedInferCase good{.layout = "BSND",
                            .lengths = {3, 2},
                            .kv_lengths = {4, 2},
                            .mask = FusedMask::kTree,
                            .sparse_mode = 9};
  const auto prefix = [](C& c) {
    c.key_prefix = c.caller.Input({.dims = {1, 4, 2, 16}});
    c.value_prefix = c.caller.Input({.dims = {1, 4, 2, 16}});
  };
  const Refusals refusals = {
      {kContradiction, "3 queries for 2 keys", Columns({2, 2})},
      {kContradiction, "pseShift", Bias({2, 4, 3, 5})},
      {kContradiction, "sparseMode: 9, with which there is no left padding",
       Formed(&C::query_padding, {ACL_INT64, {1}})},
      {kContradiction, "sparseMode: 9, with which there is no left padding",
       Formed(&C::kv_padding, {ACL_INT64, {1}})},
      {kContradiction, "sparseMode: 9, with which there is no shared prefix",
       prefix},
      {kContradiction, "INT8 attentionOut",
       All<C>(Typed(&C::out, ACL_INT8),
              Formed(&C::quant_scale2, {ACL_FLOAT, {1}}))},
      {kContradiction, "attenMask: shape", Mask({2, 3, 4})},
      {kContradiction, "attenMask: shape", Mask({18})},
  };
  ExpectRefusals(good, refusals);
  FusedInferCase packed = Packed();
  packed.mask = FusedMask::kTree;
  packed.sparse_mode = 9;
  const Refusals short_masks = {
      {kContradiction, "attenMask: shape", Mask({4})},
      {kContradiction, "attenMask: shape", Mask({2, 2, 2})},
  };
  ExpectRefusals(packed, short_masks);
}

TEST(FusedInferRefusals, Pages) {
  const auto table = [](std::vector<int64_t> dims) {
    return Formed(&C::block_table, {.type = ACL_INT32, .dims = dims});
  };
  const Refusals refusals = {
      {kContradiction, "blockSize: 0", Set(&C::block_size, 0)},
      {kContradiction, "blockSize: -16", Set(&C::block_size, -16)},
      {kContradiction, "key", Set(&C::block_size, 16)},
      {kContradiction, "actualSeqLengthsKv: absent",
       Set(&C::kv_lengths, nullptr)},
      {kContradiction, "actualSeqLengthsKv: absent", Columns({})},
      {kContradiction, "actualSeqLengthsKv: 65", Columns({65, 3})},
      {kContradiction, "blockTable: shape [4]", table({4})},
      {kContradiction, "blockTable: shape", table({2, 1, 2})},
      {kContradiction, "blockTable: shape [1, 4]", table({1, 4})},
      {kContradiction, "blockTable: shape [2, 0]", table({2, 0})},
      {kContradiction, "key: shape [6, 32, 64] has 64 / numKeyValueHeads 2",
       Keys({6, 32, 64})},
      {kContradiction, "key", Keys({6, 1024})},
      {kContradiction, "key", Keys({6, 3, 32, 16})},
      {kContradiction, "key", Keys({6, 2, 2, 32, 8})},
      {kContradiction, "value",
       Keys({.dims = {6, 32, 32}}, {.dims = {6, 2, 32, 16}})},
      {kContradiction, "value",
       Keys({.dims = {6, 32, 32}}, {.dims = {5, 32, 32}})},
      {kContradiction, "key",
       [](C& c) {
         c.keys.push_back(c.keys[0]);
         c.values.push_back(c.values[0]);
       }},
      {kContradiction, "attenMask: shape", Mask({2, 3, 63})},
      {kContradiction, "pseShift: shape", Bias({2, 4, 3, 63})},
      {kContradiction, "queryPaddingSize",
       All<C>(Formed(&C::query_padding, {ACL_INT64, {1}}), Rows({1, 1}))},
      {kContradiction, "kvPaddingSize",
       Formed(&C::kv_padding, {ACL_INT64, {1}})},
      {kContradiction, "SharedPrefix",
       [](C& c) {
         c.key_prefix = c.caller.Input({.dims = {1, 2, 4, 16}});
         c.value_prefix = c.caller.Input({.dims = {1, 2, 4, 16}});
       }},
  };
  ExpectRefusals(Paged(), refusals);
}

// Fewer sequences where channels fill no vectors.
TEST(FusedInferRefusals, SequencesOfOddChannels) {
  FusedInferCase c{.sequences = 129, .heads = 1, .kv_heads = 1, .rows = 1};
  c.columns = 1;
  C(c).ExpectAsDocumented();
  c.dim = c.v_dim = 8;
  C(c).ExpectFailure(kContradiction, "query: 129 sequences with head dim 8");
}

TEST(FusedInferRefusals, EmptyQueriesBesideResults) {
  C call;
  call.caller.Replace(call.query, {.dims = {2, 4, 0, 16}});
  call.ExpectFailure(kContradiction, "query");
  C log_sums({.rows = 0});
  log_sums.caller.Replace(log_sums.lse, {ACL_FLOAT, {2, 4, 3, 1}});
  log_sums.ExpectFailure(kContradiction, "query");
}

// Keys without elements make zeros, but of a shape that results have.
TEST(FusedInferRefusals, EmptyLogSumsBesideResults) {
  C call({.columns = 0});
  call.caller.Replace(call.lse, {ACL_FLOAT, {2, 4, 3, 0}});
  call.ExpectFailure(kContradiction, "softmaxLse: shape [2, 4, 3, 0]");
}

}  // namespace
}  // namespace flashacl::testing
