// SPDX-License-Identifier: Apache-2.0
// What aclnnPromptFlashAttention refuses: one table row per line of its
// validation table.
#include <gtest/gtest.h>

#include <limits>

#include "tests/testing/child.h"
#include "tests/testing/prompt_call.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kContradiction = 561103;
constexpr int64_t kFar = 2147483647;

using C = PromptCall;
using Refusals = std::vector<Refusal<C>>;

// All three inputs.
Change<C> TypedInputs(aclDataType type) {
  return All(Typed(&C::query, type), Typed(&C::key, type),
             Typed(&C::value, type));
}

TEST(PromptRefusals, Types) {
  const Refusals refusals = {
      {kInvalid, "key: data type", Typed(&C::key, ACL_BF16)},
      {kInvalid, "value: data type", Typed(&C::value, ACL_INT8)},
      {kInvalid, "key: data type",
       All(Typed(&C::key, ACL_BF16), Typed(&C::value, ACL_BF16))},
      {kInvalid, "attentionOut: data type", Typed(&C::out, ACL_BF16)},
      {kInvalid, "attenMask: data type",
       All(TypedInputs(ACL_INT8), Typed(&C::mask, ACL_FLOAT16))},
      {kContradiction, "attenMask: data type FLOAT16",
       Typed(&C::mask, ACL_FLOAT16)},
  };
  ExpectRefusals({.mask = PromptMask::k2}, refusals);
}

// No argument of this version could carry the scales.
TEST(PromptRefusals, EightBitNumbers) {
  const Refusals refusals = {
      {kContradiction, "attentionOut: data type INT8",
       Typed(&C::out, ACL_INT8)},
      {kContradiction, "query: data type INT8", TypedInputs(ACL_INT8)},
      {kInvalid, "value: head dim 8",
       [](C& c) {
         c.caller.Replace(c.value, {.dims = {2, 2, 5, 8}});
         c.caller.Replace(c.out, {.type = ACL_INT8, .dims = {2, 4, 3, 8}});
       }},
  };
  ExpectRefusals({}, refusals);
}

Refusal<C> Layout(const char* text, aclnnStatus status) {
  return {status, "inputLayout", Set(&C::layout, text)};
}

TEST(PromptRefusals, LayoutsAndRanks) {
  const Refusals refusals = {
      Layout("", kInvalid),
      Layout("bnsd", kInvalid),
      Layout("NTD", kInvalid),
      Layout("SBH", kInvalid),
      Layout("TND", kContradiction),
      {kInvalid, "query: shape", Shaped(&C::query, {2, 3, 64})},
      {kInvalid, "key: shape", Shaped(&C::key, {2, 5, 32})},
      {kInvalid, "value: shape", Shaped(&C::value, {2, 5, 32})},
      {kInvalid, "query: shape", Set(&C::layout, "NSD")},
      {kInvalid, "numHeads", Set(&C::heads, 0)},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, Heads) {
  const auto shape = [](int64_t heads, int64_t kv_heads) {
    return [=](C& c) {
      c.heads = heads;
      c.kv_heads = kv_heads;
      c.caller.Replace(c.query, {.dims = {2, heads, 3, 16}});
      c.caller.Replace(c.key, {.dims = {2, kv_heads, 5, 16}});
      c.caller.Replace(c.value, {.dims = {2, kv_heads, 5, 16}});
      c.caller.Replace(c.out, {.dims = {2, heads, 3, 16}});
    };
  };
  const Refusals refusals = {
      {kContradiction, "numHeads: 8", Set(&C::heads, 8)},
      {kContradiction, "key: 2 heads", Set(&C::kv_heads, 4)},
      {kContradiction, "numKeyValueHeads: 3", shape(4, 3)},
      {kContradiction, "65 query heads", shape(65, 1)},
      {kContradiction, "numHeads: 257", shape(257, 257)},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, Shapes) {
  const Refusals refusals = {
      {kContradiction,
       "key: shape [2, 2, 5, 32] has 32 channels per head, query has 16",
       Shaped(&C::key, {2, 2, 5, 32})},
      {kContradiction, "key: 3 sequences", Shaped(&C::key, {3, 2, 5, 16})},
      {kContradiction, "value: 1 sequences", Shaped(&C::value, {1, 2, 5, 16})},
      {kContradiction, "value: 6 rows", Shaped(&C::value, {2, 2, 6, 16})},
      {kContradiction, "value: 4 heads", Shaped(&C::value, {2, 4, 5, 16})},
      {kInvalid, "query: 0", Shaped(&C::query, {2, 4, 3, 0})},
      {kInvalid, "query: head dim 513", Shaped(&C::query, {2, 4, 3, 513})},
      {kInvalid, "value: head dim 513", Shaped(&C::value, {2, 2, 5, 513})},
      {kInvalid, "attentionOut: shape", Shaped(&C::out, {2, 3, 4, 16})},
      {kInvalid, "attentionOut: shape", Shaped(&C::out, {2, 4, 3, 32})},
      {kInvalid, "attentionOut: shape", Shaped(&C::out, {2, 3, 64})},
      {kContradiction, "query: 129 sequences",
       [](C& c) {
         c.caller.Replace(c.query, {.dims = {129, 4, 1, 8}});
         c.caller.Replace(c.key, {.dims = {129, 2, 1, 8}});
         c.caller.Replace(c.value, {.dims = {129, 2, 1, 8}});
         c.caller.Replace(c.out, {.dims = {129, 4, 1, 8}});
       }},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, TooManySequences) {
  const Refusals refusals = {
      {kContradiction, "query: 65537 sequences",
       [](C& c) {
         c.heads = c.kv_heads = 1;
         for (auto member : {&C::query, &C::key, &C::value, &C::out}) {
           c.caller.Replace(c.*member, {.dims = {65537, 1, 1, 16},
                                        .strides = {16, 16, 16, 1}});
         }
       }},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, FoldedHeads) {
  const Refusals refusals = {
      {kInvalid, "query: last axis 64", Set(&C::heads, 5)},
      {kInvalid, "query: last axis 2", Shaped(&C::query, {2, 3, 2})},
      {kContradiction,
       "key: shape [2, 5, 64] has 64 / numKeyValueHeads 2 = 32 channels per "
       "head, query has 64 / numHeads 4 = 16",
       Shaped(&C::key, {2, 5, 64})},
      {kContradiction, "numKeyValueHeads 0 stands for numHeads 4",
       Set(&C::kv_heads, 0)},
  };
  ExpectRefusals({.layout = "BSH"}, refusals);
}

TEST(PromptRefusals, Lengths) {
  const auto lengths = [](const std::vector<int64_t>& values) {
    return [=](C& c) { c.lengths = c.caller.Array(values); };
  };
  const Refusals refusals = {
      {kContradiction, "actualSeqLengths: 2", lengths({1, 1})},
      {kContradiction, "actualSeqLengths: -1 for sequence 1",
       lengths({1, -1, 1})},
      {kContradiction, "actualSeqLengths: 4 for sequence 2",
       lengths({1, 2, 4})},
      {kContradiction, "actualSeqLengths: 4", lengths({4})},
      {kContradiction, "expected 0 to 3; it is 3 and 2 as INT32",
       lengths({(int64_t{2} << 32) + 3})},
  };
  ExpectRefusals({.sequences = 3}, refusals);
  const Refusals packed = {
      {kContradiction, "sum 5", lengths({2, 3})},
      {kContradiction, "after 0 of 6 rows; it is 3 and 2 as INT32",
       lengths({(int64_t{2} << 32) + 3})},
      {kContradiction, "actualSeqLengths: 4 for sequence 1", lengths({3, 4})},
      {kContradiction, "actualSeqLengths: -1", lengths({-1, 7})},
      {kContradiction, "key: 7 rows",
       [](C& c) {
         c.caller.Replace(c.key, {.dims = {7, 32}});
         c.caller.Replace(c.value, {.dims = {7, 32}});
       }},
      {kContradiction, "129 sequences", lengths(std::vector<int64_t>(129, 0))},
  };
  ExpectRefusals({.layout = "SH", .rows = 6, .columns = 6}, packed);
}

TEST(PromptRefusals, Masks) {
  const auto mask = [](std::vector<int64_t> dims, aclDataType type = ACL_BOOL) {
    return
        [=](C& c) { c.caller.Replace(c.mask, {.type = type, .dims = dims}); };
  };
  const Refusals refusals = {
      {kContradiction, "attenMask: shape []", mask({})},
      {kContradiction, "attenMask: shape [15]", mask({15})},
      {kContradiction, "attenMask", mask({15}, ACL_FLOAT16)},
      {kContradiction, "attenMask: shape", mask({1, 1, 1, 3, 5})},
      {kContradiction, "attenMask: shape [2, 5]", mask({2, 5})},
      {kContradiction, "attenMask: shape [3, 4]", mask({3, 4})},
      {kContradiction,
       "attenMask: shape [3, 3, 5], expected [3, 5], [1 or 2, 3, 5] or "
       "[1 or 2, 1, 3, 5], or more in the last two axes",
       mask({3, 3, 5})},
      {kContradiction, "attenMask: shape", mask({4, 1, 3, 5})},
      {kContradiction, "attenMask: shape", mask({2, 4, 3, 5})},
  };
  ExpectRefusals({}, refusals);
}

TEST(PromptRefusals, BandsOfNothing) {
  const auto tokens = [](int64_t pre, int64_t next) {
    return [=](C& c) {
      c.pre_tokens = pre;
      c.next_tokens = next;
    };
  };
  const int64_t least = std::numeric_limits<int64_t>::min();
  const Refusals refusals = {
      {kContradiction, "preTokens: -1", tokens(-1, -1)},
      {kContradiction, "preTokens", tokens(least, least)},
      {kContradiction, "nextTokens -2", tokens(1, -2)},
      {kContradiction, "preTokens: -3", tokens(-3, 2)},
      {kContradiction, "nextTokens: -3", tokens(kFar, -3)},
      {kContradiction, "preTokens: -5", tokens(-5, kFar)},
      {kContradiction, "nextTokens: -2",
       [&](C& c) {
         tokens(kFar, -2)(c);
         c.lengths = c.caller.Array({3, 2});
       }},
  };
  ExpectRefusals({.mask = PromptMask::k2}, refusals);
}

const PromptCase kWide{.layout = "BSH",
                       .sequences = 1,
                       .heads = 256,
                       .kv_heads = 256,
                       .rows = 1,
                       .columns = 1,
                       .dim = 256,
                       .v_dim = 1};
const PromptCase kPacked{.layout = "TND",
                         .sequences = 1,
                         .lengths = {3},
                         .version = 3,
                         .kv_lengths = {5}};

TEST(PromptChild, DISABLED_Strict) {
  C(kWide).ExpectFailure(kContradiction, "query: 65536 channels");
  C(kPacked).ExpectFailure(kContradiction, "inputLayout: TND, with which");
  C endless({.sequences = 1, .heads = 1, .kv_heads = 1, .dim = 1, .v_dim = 1});
  for (DeviceTensor** keys : {&endless.key, &endless.value}) {
    endless.caller.Replace(
        *keys, {.dims = {1, 1, 20971521, 1}, .strides = {0, 0, 0, 0}});
  }
  endless.ExpectFailure(kContradiction, "key: 20971521 rows");
  C fine;
  EXPECT_TRUE(fine.Run());
}

// What only costs the NPU a warning is refused in strict mode, which a process
// chooses before its first call.
TEST(PromptRefusals, StrictModeNamesHardwareLimits) {
  const ChildResult child =
      RunChild("PromptChild.DISABLED_Strict", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
  C call(kWide);
  EXPECT_TRUE(call.Run());
  C half(kPacked);
  EXPECT_TRUE(half.Run());
}

}  // namespace
}  // namespace flashacl::testing
