// SPDX-License-Identifier: Apache-2.0
// What aclnnPromptFlashAttention refuses: one table row per line of its
// validation table, each followed by a call that is fine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <limits>

#include "tests/testing/prompt_call.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kNull = 161001;
constexpr aclnnStatus kInvalid = 161002;
constexpr aclnnStatus kContradiction = 561103;
constexpr int64_t kFar = 2147483647;

struct Refusal {
  const char* what;
  std::function<void(PromptCall&)> spoil;
  aclnnStatus status;
  const char* words;
};

// Each row spoils a call that is fine otherwise.
void ExpectRefusals(const PromptCase& good, std::span<const Refusal> refusals) {
  PromptCall fine(good);
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.what);
    PromptCall call(good);
    refusal.spoil(call);
    call.ExpectFailure(refusal.status, refusal.words);
    EXPECT_TRUE(fine.Run());  // a refusal leaves nothing behind
  }
}

void Replace(PromptCall& call, DeviceTensor*& tensor, Form form) {
  DeviceTensor* const before = tensor;
  tensor = &tensor == &call.out ? call.caller.Output(std::move(form))
                                : call.caller.Input(std::move(form));
  if (before != nullptr) call.caller.Forget(before);
}

Form Like(const DeviceTensor* tensor, aclDataType type) {
  return {.type = type, .dims = tensor->form().dims};
}

TEST(PromptRefusals, Null) {
  const Refusal refusals[] = {
      {"query", [](PromptCall& c) { c.query = nullptr; }, kNull, "query"},
      {"key", [](PromptCall& c) { c.key = nullptr; }, kNull, "key"},
      {"value", [](PromptCall& c) { c.value = nullptr; }, kNull, "value"},
      {"out", [](PromptCall& c) { c.out = nullptr; }, kNull, "attentionOut"},
      {"layout", [](PromptCall& c) { c.layout = nullptr; }, kNull,
       "inputLayout"},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, Types) {
  const auto type = [](DeviceTensor* PromptCall::*member, aclDataType to) {
    return [=](PromptCall& c) { Replace(c, c.*member, Like(c.*member, to)); };
  };
  const Refusal refusals[] = {
      {"all fp32",
       [&](PromptCall& c) {
         for (auto member : {&PromptCall::query, &PromptCall::key,
                             &PromptCall::value, &PromptCall::out}) {
           Replace(c, c.*member, Like(c.*member, ACL_FLOAT));
         }
       },
       kInvalid, "query: data type"},
      {"key", type(&PromptCall::key, ACL_BF16), kInvalid, "key: data type"},
      {"value", type(&PromptCall::value, ACL_INT8), kInvalid,
       "value: data type"},
      {"key and value",
       [&](PromptCall& c) {
         Replace(c, c.key, Like(c.key, ACL_BF16));
         Replace(c, c.value, Like(c.value, ACL_BF16));
       },
       kInvalid, "key: data type"},
      {"out", type(&PromptCall::out, ACL_BF16), kInvalid,
       "attentionOut: data type"},
      {"out fp32", type(&PromptCall::out, ACL_FLOAT), kInvalid,
       "attentionOut: data type"},
      {"mask", type(&PromptCall::mask, ACL_INT32), kInvalid,
       "attenMask: data type"},
      {"mask fp32", type(&PromptCall::mask, ACL_FLOAT), kInvalid,
       "attenMask: data type"},
      {"private format",
       [](PromptCall& c) {
         Form form = c.key->form();
         form.format = ACL_FORMAT_FRACTAL_NZ;
         Replace(c, c.key, form);
       },
       kInvalid, "key: private format"},
      {"int8 query, fp16 mask",
       [](PromptCall& c) {
         for (auto member :
              {&PromptCall::query, &PromptCall::key, &PromptCall::value}) {
           Replace(c, c.*member, Like(c.*member, ACL_INT8));
         }
         Replace(c, c.mask, Like(c.mask, ACL_FLOAT16));
       },
       kInvalid, "attenMask: data type"},
      {"fp16 mask", type(&PromptCall::mask, ACL_FLOAT16), kContradiction,
       "attenMask: data type FLOAT16"},
  };
  ExpectRefusals({.mask = PromptMask::k2}, refusals);
}

// No argument of this version could carry the scales.
TEST(PromptRefusals, EightBitNumbers) {
  const Refusal refusals[] = {
      {"out", [](PromptCall& c) { Replace(c, c.out, Like(c.out, ACL_INT8)); },
       kContradiction, "attentionOut: data type INT8"},
      {"all but out",
       [](PromptCall& c) {
         for (auto member :
              {&PromptCall::query, &PromptCall::key, &PromptCall::value}) {
           Replace(c, c.*member, Like(c.*member, ACL_INT8));
         }
       },
       kContradiction, "query: data type INT8"},
      {"Dv < D",
       [](PromptCall& c) {
         Replace(c, c.value, {.dims = {2, 2, 5, 8}});
         Replace(c, c.out, {.type = ACL_INT8, .dims = {2, 4, 3, 8}});
       },
       kInvalid, "value: head dim 8"},
  };
  ExpectRefusals({}, refusals);
}

Refusal Layout(const char* text, aclnnStatus status) {
  return {text, [text](PromptCall& c) { c.layout = const_cast<char*>(text); },
          status, "inputLayout"};
}

TEST(PromptRefusals, LayoutsAndRanks) {
  const Refusal refusals[] = {
      Layout("", kInvalid),
      Layout("bnsd", kInvalid),
      Layout("NTD", kInvalid),
      Layout("SBH", kInvalid),
      Layout("TND", kContradiction),
      {"rank of query",
       [](PromptCall& c) {
         Replace(c, c.query, {.dims = {2, 3, 64}});
       },
       kInvalid, "query: shape"},
      {"rank of key",
       [](PromptCall& c) {
         Replace(c, c.key, {.dims = {2, 5, 32}});
       },
       kInvalid, "key: shape"},
      {"rank of value",
       [](PromptCall& c) {
         Replace(c, c.value, {.dims = {2, 5, 32}});
       },
       kInvalid, "value: shape"},
      {"NSD with 4 axes",
       [](PromptCall& c) { c.layout = const_cast<char*>("NSD"); }, kInvalid,
       "query: shape"},
      {"numHeads 0", [](PromptCall& c) { c.heads = 0; }, kInvalid, "numHeads"},
      {"numHeads -1", [](PromptCall& c) { c.heads = -1; }, kInvalid,
       "numHeads"},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, Heads) {
  const auto shape = [](int64_t heads, int64_t kv_heads) {
    return [=](PromptCall& c) {
      c.heads = heads;
      c.kv_heads = kv_heads;
      Replace(c, c.query, {.dims = {2, heads, 3, 16}});
      Replace(c, c.key, {.dims = {2, kv_heads, 5, 16}});
      Replace(c, c.value, {.dims = {2, kv_heads, 5, 16}});
      Replace(c, c.out, {.dims = {2, heads, 3, 16}});
    };
  };
  const Refusal refusals[] = {
      {"numHeads is not the axis", [](PromptCall& c) { c.heads = 8; },
       kContradiction, "numHeads: 8"},
      {"numKeyValueHeads is not the axis",
       [](PromptCall& c) { c.kv_heads = 4; }, kContradiction, "key: 2 heads"},
      {"negative", [](PromptCall& c) { c.kv_heads = -2; }, kContradiction,
       "numKeyValueHeads: -2"},
      {"does not divide", shape(4, 3), kContradiction, "numKeyValueHeads: 3"},
      {"65 to 1", shape(65, 1), kContradiction, "65 query heads"},
      {"128 to 1", shape(128, 1), kContradiction, "128 query heads"},
      {"257 heads", shape(257, 257), kContradiction, "numHeads: 257"},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, Shapes) {
  const auto input = [](DeviceTensor* PromptCall::*member,
                        std::vector<int64_t> dims) {
    return [=](PromptCall& c) { Replace(c, c.*member, {.dims = dims}); };
  };
  const Refusal refusals[] = {
      {"D of key", input(&PromptCall::key, {2, 2, 5, 32}), kContradiction,
       "key: 32 channels"},
      {"B of key", input(&PromptCall::key, {3, 2, 5, 16}), kContradiction,
       "key: 3 sequences"},
      {"B of value", input(&PromptCall::value, {1, 2, 5, 16}), kContradiction,
       "value: 1 sequences"},
      {"S of value", input(&PromptCall::value, {2, 2, 6, 16}), kContradiction,
       "value: 6 rows"},
      {"N of value", input(&PromptCall::value, {2, 4, 5, 16}), kContradiction,
       "value: 4 heads"},
      {"D 0", input(&PromptCall::query, {2, 4, 3, 0}), kInvalid, "query: 0"},
      {"D 513", input(&PromptCall::query, {2, 4, 3, 513}), kInvalid,
       "query: head dim 513"},
      {"Dv 513", input(&PromptCall::value, {2, 2, 5, 513}), kInvalid,
       "value: head dim 513"},
      {"out", input(&PromptCall::out, {2, 3, 4, 16}), kInvalid,
       "attentionOut: shape"},
      {"Dv of out", input(&PromptCall::out, {2, 4, 3, 32}), kInvalid,
       "attentionOut: shape"},
      {"rank of out", input(&PromptCall::out, {2, 3, 64}), kInvalid,
       "attentionOut: shape"},
      {"many sequences, odd D",
       [](PromptCall& c) {
         Replace(c, c.query, {.dims = {129, 4, 1, 8}});
         Replace(c, c.key, {.dims = {129, 2, 1, 8}});
         Replace(c, c.value, {.dims = {129, 2, 1, 8}});
         Replace(c, c.out, {.dims = {129, 4, 1, 8}});
       },
       kContradiction, "query: 129 sequences"},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, TooManySequences) {
  const Refusal refusals[] = {
      {"65537 sequences",
       [](PromptCall& c) {
         c.heads = c.kv_heads = 1;
         for (auto member : {&PromptCall::query, &PromptCall::key,
                             &PromptCall::value, &PromptCall::out}) {
           Replace(c, c.*member,
                   {.dims = {65537, 1, 1, 16}, .strides = {1, 1, 1, 1}});
         }
       },
       kContradiction, "query: 65537 sequences"},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, FoldedHeads) {
  const Refusal refusals[] = {
      {"H not of heads", [](PromptCall& c) { c.heads = 5; }, kInvalid,
       "query: last axis 64"},
      {"more heads than H",
       [](PromptCall& c) {
         Replace(c, c.query, {.dims = {2, 3, 2}});
       },
       kInvalid, "query: last axis 2"},
      {"H of key",
       [](PromptCall& c) {
         Replace(c, c.key, {.dims = {2, 5, 64}});
       },
       kContradiction, "key: 32 channels"},
  };
  ExpectRefusals({.layout = "BSH"}, refusals);
}

TEST(PromptRefusals, Lengths) {
  const auto lengths = [](std::vector<int64_t> values) {
    return [=](PromptCall& c) { c.lengths = c.caller.Array(values); };
  };
  const Refusal refusals[] = {
      {"2 of 3", lengths({1, 1}), kContradiction, "actualSeqLengths: 2"},
      {"negative", lengths({1, -1, 1}), kContradiction,
       "actualSeqLengths: -1 for sequence 1"},
      {"beyond S", lengths({1, 2, 4}), kContradiction,
       "actualSeqLengths: 4 for sequence 2"},
      {"one for all beyond S", lengths({4}), kContradiction,
       "actualSeqLengths: 4"},
  };
  ExpectRefusals({.sequences = 3}, refusals);
  const Refusal packed[] = {
      {"sum too small", lengths({2, 3}), kContradiction, "sum 5"},
      {"sum too large", lengths({3, 4}), kContradiction,
       "actualSeqLengths: 4 for sequence 1"},
      {"negative", lengths({-1, 7}), kContradiction, "actualSeqLengths: -1"},
      {"keys",
       [](PromptCall& c) {
         Replace(c, c.key, {.dims = {7, 32}});
         Replace(c, c.value, {.dims = {7, 32}});
       },
       kContradiction, "key: 7 rows"},
      {"129 sequences", lengths(std::vector<int64_t>(129, 0)), kContradiction,
       "129 sequences"},
  };
  ExpectRefusals({.layout = "SH", .rows = 6, .columns = 6}, packed);
}

TEST(PromptRefusals, Masks) {
  const auto mask = [](std::vector<int64_t> dims, aclDataType type = ACL_BOOL) {
    return [=](PromptCall& c) {
      Replace(c, c.mask, {.type = type, .dims = dims});
    };
  };
  const Refusal refusals[] = {
      {"rank 0", mask({}), kContradiction, "attenMask: shape []"},
      {"rank 1", mask({15}), kContradiction, "attenMask: shape [15]"},
      {"rank 1, fp16", mask({15}, ACL_FLOAT16), kContradiction, "attenMask"},
      {"rank 5", mask({1, 1, 1, 3, 5}), kContradiction, "attenMask: shape"},
      {"few rows", mask({2, 5}), kContradiction, "attenMask: shape [2, 5]"},
      {"few columns", mask({3, 4}), kContradiction, "attenMask: shape [3, 4]"},
      {"B", mask({3, 3, 5}), kContradiction, "attenMask: shape [3, 3, 5]"},
      {"B of rank 4", mask({4, 1, 3, 5}), kContradiction, "attenMask: shape"},
      {"heads", mask({2, 4, 3, 5}), kContradiction, "attenMask: shape"},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, BandsOfNothing) {
  const auto tokens = [](int64_t pre, int64_t next) {
    return [=](PromptCall& c) {
      c.pre_tokens = pre;
      c.next_tokens = next;
    };
  };
  const int64_t least = std::numeric_limits<int64_t>::min();
  const Refusal refusals[] = {
      {"both negative", tokens(-1, -1), kContradiction, "preTokens: -1"},
      {"least", tokens(least, least), kContradiction, "preTokens"},
      {"empty band", tokens(1, -2), kContradiction, "nextTokens -2"},
      {"empty band the other way", tokens(-3, 2), kContradiction,
       "preTokens: -3"},
      {"next beyond rows", tokens(kFar, -3), kContradiction, "nextTokens: -3"},
      {"pre beyond keys", tokens(-5, kFar), kContradiction, "preTokens: -5"},
      {"next beyond a short sequence",
       [&](PromptCall& c) {
         tokens(kFar, -2)(c);
         c.lengths = c.caller.Array({3, 2});
       },
       kContradiction, "nextTokens: -2"},
  };
  ExpectRefusals({.mask = PromptMask::k2}, refusals);
}

// What only costs the NPU a warning is refused in strict mode, which a process
// chooses before its first call.
TEST(PromptRefusals, StrictModeNamesHardwareLimits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const PromptCase wide{.layout = "BSH",
                        .sequences = 1,
                        .heads = 256,
                        .kv_heads = 256,
                        .rows = 1,
                        .columns = 1,
                        .dim = 256,
                        .v_dim = 1};
  const PromptCase packed{.layout = "TND",
                          .sequences = 1,
                          .lengths = {3},
                          .version = 3,
                          .kv_lengths = {5}};
  const PromptCase one{
      .sequences = 1, .heads = 1, .kv_heads = 1, .dim = 1, .v_dim = 1};
  EXPECT_EXIT(
      {
        setenv("FLASHACL_STRICT", "1", 1);
        PromptCall(wide).ExpectFailure(kContradiction, "query: 65536 channels");
        PromptCall(packed).ExpectFailure(kContradiction,
                                         "inputLayout: TND, with which");
        PromptCall endless(one);
        for (DeviceTensor** keys : {&endless.key, &endless.value}) {
          Replace(endless, *keys,
                  {.dims = {1, 1, 20971521, 1}, .strides = {0, 0, 0, 0}});
        }
        endless.ExpectFailure(kContradiction, "key: 20971521 rows");
        PromptCall fine;
        EXPECT_TRUE(fine.Run());
        std::exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
  PromptCall call(wide);
  EXPECT_TRUE(call.Run());
  PromptCall half(packed);
  EXPECT_TRUE(half.Run());
}

}  // namespace
}  // namespace flashacl::testing
