// SPDX-License-Identifier: Apache-2.0
// What aclnnIncreFlashAttentionV4 refuses: one table row per line of its
// validation table, each followed by a call that is fine.
#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "tests/testing/decode_call.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kNull = 161001;
constexpr aclnnStatus kInvalid = 161002;
constexpr aclnnStatus kContradiction = 561002;

using Spoil = std::function<void(DecodeCall&)>;

struct Refusal {
  const char* what;
  Spoil spoil;
  aclnnStatus status;
  const char* words;
};

// Each row spoils a call that is fine otherwise.
void ExpectRefusals(const DecodeCase& good, std::span<const Refusal> refusals) {
  DecodeCall fine(good);
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.what);
    DecodeCall call(good);
    refusal.spoil(call);
    call.ExpectFailure(refusal.status, refusal.words);
    EXPECT_TRUE(fine.Run());  // a refusal leaves nothing behind
  }
}

// A contradiction, which most are.
Refusal Bad(const char* what, Spoil spoil, const char* words) {
  return {what, std::move(spoil), kContradiction, words};
}

Spoil Input(DeviceTensor* DecodeCall::*member, Form form) {
  return [=](DecodeCall& c) { c.*member = c.caller.Input(form); };
}

Spoil Keys(Form key, Form value) {
  return [=](DecodeCall& c) {
    c.keys = {c.caller.Input(key)};
    c.values = {c.caller.Input(value)};
  };
}

Spoil Keys(std::vector<int64_t> dims) {
  return Keys({.dims = dims}, {.dims = dims});
}

Spoil Out(Form form) {
  return [=](DecodeCall& c) {
    c.caller.Forget(c.out);
    c.out = c.caller.Output(form);
  };
}

Spoil Lengths(std::vector<int64_t> values) {
  return [=](DecodeCall& c) { c.lengths = c.caller.Array(values); };
}

template <typename T>
Spoil Set(T DecodeCall::*member, T value) {
  return [=](DecodeCall& c) { c.*member = value; };
}

TEST(DecodeRefusals, Null) {
  const Refusal refusals[] = {
      {"query", Set<DeviceTensor*>(&DecodeCall::query, nullptr), kNull,
       "query"},
      {"key", Set(&DecodeCall::null_keys, true), kNull, "key"},
      {"value", Set(&DecodeCall::null_values, true), kNull, "value"},
      {"member of key", [](DecodeCall& c) { c.keys = {nullptr}; }, kNull,
       "key[0]"},
      {"out", Set<DeviceTensor*>(&DecodeCall::out, nullptr), kNull,
       "attentionOut"},
      {"layout", Set<char*>(&DecodeCall::layout, nullptr), kNull,
       "inputLayout"},
  };
  ExpectRefusals({}, refusals);
}

TEST(DecodeRefusals, Types) {
  const std::vector<int64_t> kv{2, 2, 7, 16};
  const Form int8{.type = ACL_INT8, .dims = kv};
  const Form bf16{.type = ACL_BF16, .dims = kv};
  const Form f16{.dims = kv};
  const Refusal refusals[] = {
      {"query int8",
       Input(&DecodeCall::query, {.type = ACL_INT8, .dims = {2, 4, 1, 16}}),
       kInvalid, "query: data type"},
      {"query fp32",
       Input(&DecodeCall::query, {.type = ACL_FLOAT, .dims = {2, 4, 1, 16}}),
       kInvalid, "query: data type"},
      {"bf16 keys", Keys(bf16, bf16), kInvalid, "key: data type"},
      {"fp32 keys",
       Keys({.type = ACL_FLOAT, .dims = kv}, {.type = ACL_FLOAT, .dims = kv}),
       kInvalid, "key: data type"},
      {"int8 keys, fp16 values", Keys(int8, f16), kInvalid, "value: data type"},
      {"fp16 keys, int8 values", Keys(f16, int8), kInvalid, "value: data type"},
      {"out bf16", Out({.type = ACL_BF16, .dims = {2, 4, 1, 16}}), kInvalid,
       "attentionOut: data type"},
      {"out fp32", Out({.type = ACL_FLOAT, .dims = {2, 4, 1, 16}}), kInvalid,
       "attentionOut: data type"},
      {"mask fp16", Input(&DecodeCall::mask, {.dims = {2, 7}}), kInvalid,
       "attenMask: data type"},
      {"pse bf16",
       Input(&DecodeCall::pse, {.type = ACL_BF16, .dims = {2, 4, 1, 7}}),
       kInvalid, "pseShift: data type"},
      {"pse fp32",
       Input(&DecodeCall::pse, {.type = ACL_FLOAT, .dims = {2, 4, 1, 7}}),
       kInvalid, "pseShift: data type"},
      {"int8 antiquantScale",
       Input(&DecodeCall::antiquant_scale, {.type = ACL_INT8, .dims = {2}}),
       kInvalid, "antiquantScale: data type"},
      {"fp16 quantScale2", Input(&DecodeCall::quant_scale2, {.dims = {1}}),
       kInvalid, "quantScale2: data type"},
      {"int64 blocktable",
       Input(&DecodeCall::block_table, {.type = ACL_INT64, .dims = {2, 1}}),
       kInvalid, "blocktable: data type"},
      {"int32 kvPaddingSize",
       Input(&DecodeCall::padding, {.type = ACL_INT32, .dims = {1}}), kInvalid,
       "kvPaddingSize: data type"},
      {"private format",
       Keys({.dims = kv, .format = ACL_FORMAT_FRACTAL_NZ}, f16), kInvalid,
       "key: private format"},
  };
  ExpectRefusals({}, refusals);
}

Refusal Layout(const char* text) {
  return Bad(text, Set(&DecodeCall::layout, const_cast<char*>(text)),
             "inputLayout");
}

TEST(DecodeRefusals, Scalars) {
  const Refusal refusals[] = {
      Layout(""),
      Layout("BNSD_BSND"),
      Layout("bsh"),
      Layout("TND"),
      Layout("NSD"),
      Layout("SH"),
      Bad("innerPrecise 2", Set<int64_t>(&DecodeCall::inner_precise, 2),
          "innerPrecise: 2"),
      Bad("innerPrecise -1", Set<int64_t>(&DecodeCall::inner_precise, -1),
          "innerPrecise: -1"),
      Bad("innerPrecise 4", Set<int64_t>(&DecodeCall::inner_precise, 4),
          "innerPrecise: 4"),
      Bad("numHeads 0", Set<int64_t>(&DecodeCall::heads, 0), "numHeads: 0"),
      Bad("numHeads -4", Set<int64_t>(&DecodeCall::heads, -4), "numHeads: -4"),
      Bad("numHeads 8", Set<int64_t>(&DecodeCall::heads, 8), "query: 4 heads"),
      Bad("numKeyValueHeads -1", Set<int64_t>(&DecodeCall::kv_heads, -1),
          "numKeyValueHeads: -1"),
      Bad("numKeyValueHeads 3", Set<int64_t>(&DecodeCall::kv_heads, 3),
          "numKeyValueHeads: 3"),
      Bad("numKeyValueHeads 4", Set<int64_t>(&DecodeCall::kv_heads, 4),
          "key: 2 heads"),
  };
  ExpectRefusals({}, refusals);
}

TEST(DecodeRefusals, Shapes) {
  const auto all = [](std::vector<int64_t> row, std::vector<int64_t> kv) {
    return [=](DecodeCall& c) {
      Input(&DecodeCall::query, {.dims = row})(c);
      Out({.dims = row})(c);
      Keys(kv)(c);
      c.heads = row[1];
      c.kv_heads = kv[1];
    };
  };
  const Refusal refusals[] = {
      Bad("Sq 2", all({2, 4, 2, 16}, {2, 2, 7, 16}), "query: 2 rows"),
      Bad("Sq 16", all({2, 4, 16, 16}, {2, 2, 7, 16}), "query: 16 rows"),
      Bad("Sq 0", all({2, 4, 0, 16}, {2, 2, 7, 16}), "query: shape"),
      Bad("B 0", all({0, 4, 1, 16}, {0, 2, 7, 16}), "query: shape"),
      Bad("D 513", all({1, 1, 1, 513}, {1, 1, 1, 513}), "head dim 513"),
      Bad("65 to 1", all({1, 65, 1, 16}, {1, 1, 7, 16}), "65 query heads"),
      Bad("257 heads", all({1, 257, 1, 16}, {1, 257, 1, 16}), "numHeads: 257"),
      Bad("65537 sequences", all({65537, 1, 1, 1}, {65537, 1, 1, 1}),
          "query: 65537 sequences"),
      Bad("rank of query", Input(&DecodeCall::query, {.dims = {2, 1, 64}}),
          "query: shape"),
      Bad("out", Out({.dims = {2, 1, 4, 16}}), "attentionOut: shape"),
      Bad("empty out", Out({.dims = {0, 4, 1, 16}}), "attentionOut: shape"),
      Bad("value", Keys({.dims = {2, 2, 7, 16}}, {.dims = {2, 2, 8, 16}}),
          "value: shape"),
      Bad("Dv", Keys({.dims = {2, 2, 7, 16}}, {.dims = {2, 2, 7, 8}}),
          "value: shape"),
      Bad("D of key", Keys({2, 2, 7, 8}), "key: 8 channels"),
      Bad("rank of key", Keys({2, 7, 32}), "key: shape"),
      Bad("B of key", Keys({3, 2, 7, 16}), "key: 1 tensors"),
  };
  ExpectRefusals({}, refusals);
}

TEST(DecodeRefusals, FoldedHeads) {
  const Refusal refusals[] = {
      Bad("H of query", Set<int64_t>(&DecodeCall::heads, 6), "query"),
      Bad("H of key", Keys({2, 7, 33}), "key: last axis 33"),
      Bad("D of key", Keys({2, 7, 64}), "key: 32 channels"),
  };
  ExpectRefusals({.layout = "BSH", .kv_heads = 2}, refusals);
}

TEST(DecodeRefusals, Lists) {
  const auto members = [](std::vector<std::vector<int64_t>> keys,
                          size_t values) {
    return [=](DecodeCall& c) {
      c.keys.clear();
      for (const auto& dims : keys) {
        c.keys.push_back(c.caller.Input({.dims = dims}));
      }
      c.values = c.keys;
      c.values.resize(values);
    };
  };
  const std::vector<int64_t> one{1, 2, 7, 16};
  const Refusal refusals[] = {
      Bad("no tensors", members({}, 0), "key: no tensors"),
      Bad("a tensor of nothing", members({{0}}, 1), "key"),
      Bad("too few", members({one, one}, 2), "key: 2 tensors"),
      Bad("too many", members({one, one, one, one}, 4), "key: 4 tensors"),
      Bad("values", members({one, one, one}, 2), "value: 2 tensors"),
      Bad("batch of a member", members({one, {2, 2, 7, 16}, one}, 3),
          "key: 2 sequences"),
      Bad("heads of a member", members({one, {1, 4, 7, 16}, one}, 3),
          "key: 4 heads"),
      Bad("D of a member", members({one, one, {1, 2, 7, 8}}, 3),
          "key: 8 channels"),
      Bad("rank of a member", members({one, one, {1, 7, 32}}, 3), "key: shape"),
      Bad("length beyond its own tensor", Lengths({7, 4, 7}),
          "actualSeqLengths: 4 for sequence 1"),
  };
  ExpectRefusals(
      {.keys = DecodeKeys::kList, .sequences = 3, .own_columns = {7, 3, 9}},
      refusals);
  DecodeCall many({.keys = DecodeKeys::kList,
                   .sequences = 257,
                   .heads = 1,
                   .kv_heads = 1,
                   .dim = 1,
                   .own_columns = std::vector<int64_t>(257, 1)});
  many.ExpectFailure(kContradiction, "key: 257 tensors");
}

TEST(DecodeRefusals, LengthsMasksAndBiases) {
  const auto mask = [](std::vector<int64_t> dims) {
    return Input(&DecodeCall::mask, {.type = ACL_BOOL, .dims = dims});
  };
  const auto pse = [](std::vector<int64_t> dims) {
    return Input(&DecodeCall::pse, {.dims = dims});
  };
  const Refusal refusals[] = {
      Bad("2 lengths of 3", Lengths({1, 1}), "actualSeqLengths: 2"),
      Bad("negative", Lengths({1, -1, 1}),
          "actualSeqLengths: -1 for sequence 1"),
      Bad("beyond S", Lengths({1, 1, 8}), "actualSeqLengths: 8 for sequence 2"),
      Bad("one beyond S", Lengths({8}), "actualSeqLengths: 8"),
      Bad("mask of one sequence", mask({1, 7}), "attenMask: shape [1, 7]"),
      Bad("mask of 4", mask({4, 7}), "attenMask: shape [4, 7]"),
      Bad("narrow mask", mask({3, 6}), "attenMask: shape [3, 6]"),
      Bad("mask of rank 0", mask({}), "attenMask: shape []"),
      Bad("mask of rank 1", mask({21}), "attenMask: shape [21]"),
      Bad("mask with rows", mask({3, 2, 7}), "attenMask: shape [3, 2, 7]"),
      Bad("mask with heads", mask({3, 4, 1, 7}), "attenMask: shape"),
      Bad("mask of rank 5", mask({3, 1, 1, 1, 7}), "attenMask: shape"),
      Bad("pse of rank 0", pse({}), "pseShift: shape []"),
      Bad("pse of rank 3", pse({4, 1, 7}), "pseShift: shape"),
      Bad("pse of 2", pse({2, 4, 1, 7}), "pseShift: shape"),
      Bad("pse of 1 head", pse({3, 1, 1, 7}), "pseShift: shape"),
      Bad("pse with rows", pse({3, 4, 2, 7}), "pseShift: shape"),
      Bad("narrow pse", pse({3, 4, 1, 6}), "pseShift: shape"),
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
    return Input(&DecodeCall::block_table, {.type = ACL_INT32, .dims = dims});
  };
  const auto block_size = [](int64_t size, aclDataType type) {
    return [=](DecodeCall& c) {
      c.block_size = size;
      const Form form{.type = type,
                      .dims = {6, std::max<int64_t>(size, 0), 32}};
      Keys(form, form)(c);
      if (type == ACL_INT8) {
        c.antiquant_scale = c.caller.Input({.dims = {2}});
      }
    };
  };
  const Refusal refusals[] = {
      Bad("blockSize 0", block_size(0, ACL_FLOAT16), "blockSize: 0"),
      Bad("blockSize -1", block_size(-1, ACL_FLOAT16), "blockSize: -1"),
      Bad("blockSize 528", block_size(528, ACL_FLOAT16), "blockSize: 528"),
      Bad("blockSize 24", block_size(24, ACL_FLOAT16), "blockSize: 24"),
      Bad("blockSize 48, int8", block_size(48, ACL_INT8), "blockSize: 48"),
      Bad("blockSize is not the axis",
          Set<int64_t>(&DecodeCall::block_size, 16), "key: shape"),
      Bad("no lengths", Set<const aclIntArray*>(&DecodeCall::lengths, nullptr),
          "actualSeqLengths: absent"),
      Bad("empty lengths", Lengths({}), "actualSeqLengths: absent"),
      Bad("length beyond the table", Lengths({65, 3}), "actualSeqLengths: 65"),
      Bad("table of rank 0", table({}), "blocktable: shape []"),
      Bad("table of rank 1", table({4}), "blocktable: shape [4]"),
      Bad("table of rank 3", table({2, 1, 2}), "blocktable: shape"),
      Bad("table of 1 sequence", table({1, 4}), "blocktable: shape [1, 4]"),
      Bad("table without blocks", table({2, 0}), "blocktable: shape [2, 0]"),
  };
  ExpectRefusals(Paged(), refusals);
}

TEST(DecodeRefusals, CachesOfPages) {
  const Refusal refusals[] = {
      Bad(
          "wide blocks",
          [](DecodeCall& c) {
            const Form form{.dims = {6, 32, 65536}, .strides = {0, 0, 0}};
            Keys(form, form)(c);
          },
          "key: 65536 channels"),
      Bad("width", Keys({6, 32, 64}), "key: 32 channels"),
      Bad(
          "two tensors",
          [](DecodeCall& c) {
            c.keys.push_back(c.keys[0]);
            c.values.push_back(c.values[0]);
          },
          "key: 2 tensors"),
      Bad("rank 2", Keys({6, 1024}), "key: shape"),
      Bad("rank 5", Keys({6, 2, 1, 32, 16}), "key: shape"),
      Bad("narrow mask",
          Input(&DecodeCall::mask, {.type = ACL_BOOL, .dims = {2, 63}}),
          "attenMask: shape"),
      Bad("narrow pse", Input(&DecodeCall::pse, {.dims = {2, 4, 1, 63}}),
          "pseShift: shape"),
  };
  ExpectRefusals(Paged(), refusals);
  for (const char* layout : {"BSH", "BSND"}) {
    DecodeCase c = Paged();
    c.layout = layout;
    DecodeCall call(c);
    Keys({6, 2, 32, 16})(call);
    call.ExpectFailure(kContradiction, "key: shape [6, 2, 32, 16]");
  }
}

TEST(DecodeRefusals, LeftPaddingOfEachSequence) {
  DecodeCall call({.lengths = {3, 6}, .padding = 1});
  call.padding = call.caller.Input({.type = ACL_INT64, .dims = {2}});
  call.ExpectFailure(kContradiction, "kvPaddingSize: shape [2], expected one");
  call.lengths = nullptr;  // without which it is ignored
  EXPECT_TRUE(call.Run());
}

TEST(DecodeRefusals, KeyScales) {
  const auto scale = [](std::vector<int64_t> dims,
                        aclDataType type = ACL_FLOAT16) {
    return Input(&DecodeCall::antiquant_scale, {.type = type, .dims = dims});
  };
  const auto offset = [](std::vector<int64_t> dims,
                         aclDataType type = ACL_FLOAT16) {
    return Input(&DecodeCall::antiquant_offset, {.type = type, .dims = dims});
  };
  const Refusal int8[] = {
      Bad("none", Set<DeviceTensor*>(&DecodeCall::antiquant_scale, nullptr),
          "antiquantScale: absent"),
      Bad("bf16", scale({2}, ACL_BF16), "antiquantScale: data type"),
      Bad("fp32", scale({2}, ACL_FLOAT), "antiquantScale: data type"),
      Bad("one number", scale({1}), "antiquantScale: shape [1]"),
      Bad("a number without axes", scale({}), "antiquantScale: shape []"),
      Bad("heads of query", scale({2, 64}), "antiquantScale: shape [2, 64]"),
      Bad("transposed", scale({2, 16, 2}), "antiquantScale: shape"),
      Bad("offset of fewer", offset({2}), "antiquantOffset: FLOAT16"),
      Bad("offset in bf16", offset({2, 32}, ACL_BF16), "antiquantOffset"),
  };
  ExpectRefusals({.key_scales = Scales::kH}, int8);
  const Refusal f16[] = {
      Bad("scale of fp16", scale({2}), "antiquantScale: given"),
      Bad("offset alone", offset({2}), "antiquantOffset: given without"),
  };
  ExpectRefusals({}, f16);
}

TEST(DecodeRefusals, OutScales) {
  const auto input = [](DeviceTensor* DecodeCall::*member,
                        std::vector<int64_t> dims,
                        aclDataType type = ACL_FLOAT) {
    return Input(member, {.type = type, .dims = dims});
  };
  const Refusal int8[] = {
      Bad("none", Set<DeviceTensor*>(&DecodeCall::quant_scale2, nullptr),
          "quantScale2: absent"),
      Bad("bf16 of fp16", input(&DecodeCall::quant_scale2, {1}, ACL_BF16),
          "quantScale2: data type"),
      Bad("kv heads", input(&DecodeCall::quant_scale2, {32}),
          "quantScale2: shape [32]"),
      Bad("transposed", input(&DecodeCall::quant_scale2, {16, 4}),
          "quantScale2: shape [16, 4]"),
      Bad("offset of fewer", input(&DecodeCall::quant_offset2, {2}),
          "quantOffset2: FLOAT"),
      Bad("offset in bf16", input(&DecodeCall::quant_offset2, {1}, ACL_BF16),
          "quantOffset2: BF"),
      Bad("dequantScale1", input(&DecodeCall::dequant_scale1, {1}),
          "dequantScale1: given"),
      Bad("dequantScale1 of rank 0", input(&DecodeCall::dequant_scale1, {}),
          "dequantScale1: given"),
      Bad("dequantScale1 as uint64",
          input(&DecodeCall::dequant_scale1, {1}, ACL_UINT64),
          "dequantScale1: given"),
      Bad("quantScale1", input(&DecodeCall::quant_scale1, {1}),
          "quantScale1: given"),
      Bad("dequantScale2", input(&DecodeCall::dequant_scale2, {1}),
          "dequantScale2: given"),
  };
  ExpectRefusals({.out_scales = Scales::kTensor}, int8);
  const Refusal f16[] = {
      Bad("scale", input(&DecodeCall::quant_scale2, {1}), "quantScale2: given"),
      Bad("offset", input(&DecodeCall::quant_offset2, {1}),
          "quantOffset2: given without"),
      Bad("quantScale1", input(&DecodeCall::quant_scale1, {1}),
          "quantScale1: given"),
      Bad("int8 out", Out({.type = ACL_INT8, .dims = {2, 4, 1, 16}}),
          "quantScale2: absent"),
  };
  ExpectRefusals({}, f16);
}

}  // namespace
}  // namespace flashacl::testing
