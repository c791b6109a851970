// SPDX-License-Identifier: Apache-2.0
// What aclnnSparseFlashAttention and V2 refuse.
#include <gtest/gtest.h>

#include "tests/testing/child.h"
#include "tests/testing/refusal.h"
#include "tests/testing/sparse_call.h"

namespace flashacl::testing {
namespace {

using Case = SparseCase;
using C = SparseForwardCall;
using Refusals = std::vector<Refusal<C>>;

Case Dense() {
  return {.packed = false, .query_lengths = {}, .key_lengths = {}};
}

Case Paged() {
  return {.version = 2,
          .page_rows = 16,
          .columns = 32,
          .key_lengths = {17, 32},
          .statistics = false};
}

TEST(SparseRefusals, Null) {
  ExpectRefusals(Paged(), Refusals{{kNull, "actualSeqLengthsKvOptional",
                                    Without(&C::key_lengths)}});
}

TEST(SparseRefusals, TypesThatDiffer) {
  const Refusals refusals = {
      {kInvalid, "key: data type", Typed(&C::key, ACL_BF16)},
      {kInvalid, "value: data type", Typed(&C::value, ACL_BF16)},
      {kInvalid, "keyRopeOptional: data type", Typed(&C::key_rope, ACL_BF16)},
      {kInvalid, "attentionOut: data type", Typed(&C::out, ACL_BF16)},
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseRefusals, Values) {
  const auto layouts = [](const char* query, const char* key) {
    return [=](C& call) {
      call.query_layout = const_cast<char*>(query);
      call.key_layout = const_cast<char*>(key);
    };
  };
  const Refusals refusals = {
      {kInvalid, "layoutQuery: \"BNSD\"", layouts("BNSD", "TND")},
      {kInvalid, "layoutQuery: \"PA_BSND\"", layouts("PA_BSND", "TND")},
      {kInvalid, "layoutKv: \"PA_BNSD\"", layouts("TND", "PA_BNSD")},
      {kInvalid, "layoutKv: \"BSND\", expected TND", layouts("TND", "BSND")},
      {kInvalid, "sparseMode: 2", [](C& call) { call.asked.mode = 2; }},
      {kInvalid, "sparseBlockSize: 0", [](C& call) { call.asked.block = 0; }},
      {kInvalid, "preTokens: 4", [](C& call) { call.pre_tokens = 4; }},
      {kInvalid, "nextTokens: 0", [](C& call) { call.next_tokens = 0; }},
      {kInvalid, "attentionMode: 0, expected 2",
       [](C& call) { call.attention_mode = 0; }},
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseRefusals, WhatPagesExclude) {
  const Refusals refusals = {
      {kInvalid, "blockTableOptional: absent", Without(&C::block_table)},
      {kInvalid, "returnSoftmaxLse: true, but keys are in pages",
       [](C& call) { call.asked.statistics = true; }},
      {kInvalid, "sinksOptional: given, but keys are in pages",
       [](C& call) {
         call.sinks = call.caller.Input({.type = ACL_FLOAT, .dims = {4}});
       }},
      {kInvalid, "blockTableOptional: shape [6], expected [2, blocks]",
       Shaped(&C::block_table, {6})},
      {kInvalid, "blockTableOptional: shape [1, 3]",
       Shaped(&C::block_table, {1, 3})},
      {kInvalid, "key: shape [96, 1, 16]", Shaped(&C::key, {96, 1, 16})},
      {kInvalid, "value: shape [5, 16, 1, 16]",
       Shaped(&C::value, {5, 16, 1, 16})},
      {kInvalid, "keyRopeOptional: shape [6, 8, 1, 8]",
       Shaped(&C::key_rope, {6, 8, 1, 8})},
      {kInvalid, "actualSeqLengthsKvOptional: shape [3], expected [2]",
       Shaped(&C::key_lengths, {3})},
  };
  ExpectRefusals(Paged(), refusals);
  const Refusals unpaged = {
      {kInvalid, "blockTableOptional: given, but layoutKv is not PA_BSND",
       [](C& call) {
         call.block_table =
             call.caller.Input({.type = ACL_INT32, .dims = {2, 1}});
       }},
  };
  ExpectRefusals({}, unpaged);
}

TEST(SparseRefusals, PackedShapes) {
  const Refusals refusals = {
      {kInvalid, "query: shape", Shaped(&C::query, {1, 5, 4, 16})},
      {kInvalid, "key: shape", Shaped(&C::key, {1, 9, 1, 16})},
      {kInvalid, "key: 2 heads", Shaped(&C::key, {9, 2, 16})},
      {kInvalid, "key: head dim 8", Shaped(&C::key, {9, 1, 8})},
      {kInvalid, "value: shape", Shaped(&C::value, {8, 1, 16})},
      {kInvalid, "attentionOut: shape", Shaped(&C::out, {4, 4, 16})},
      {kInvalid, "attentionOut: shape", Shaped(&C::out, {5, 4, 8})},
      {kInvalid, "queryRopeOptional: shape", Shaped(&C::query_rope, {5, 2, 8})},
      {kInvalid, "keyRopeOptional: shape", Shaped(&C::key_rope, {9, 1, 4})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {4, 1, 4})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {5, 4, 4})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {5, 1, 0})},
      {kInvalid, "softmaxMaxOut: shape [5, 4], expected [1, 5, 4]",
       Shaped(&C::row_max, {5, 4})},
      {kInvalid, "softmaxSumOut: shape", Shaped(&C::row_sum, {5, 4, 8})},
      {kInvalid, "actualSeqLengthsQueryOptional: shape",
       Shaped(&C::query_lengths, {2, 1})},
      {kInvalid, "actualSeqLengthsKvOptional: shape [3], expected [2]",
       Shaped(&C::key_lengths, {3})},
      {kInvalid, "actualSeqLengthsQueryOptional: 0 sequences",
       [](C& call) {
         Shaped(&C::query_lengths, {0})(call);
         Shaped(&C::key_lengths, {0})(call);
       }},
      {kInvalid, "actualSeqLengthsQueryOptional: 1048577 sequences",
       [](C& call) {
         const Form many{ACL_INT32, {(1 << 20) + 1}, {0}};
         call.caller.Replace(call.query_lengths, many);
         call.caller.Replace(call.key_lengths, many);
       }},
  };
  ExpectRefusals({}, refusals);
  const Refusals sunk = {
      {kInvalid, "sinksOptional: shape [3], expected [4]",
       Shaped(&C::sinks, {3})},
      {kInvalid, "sinksOptional: shape [1, 4]", Shaped(&C::sinks, {1, 4})},
  };
  ExpectRefusals({.version = 2, .sinks = true}, sunk);
}

TEST(SparseRefusals, DenseShapes) {
  const Refusals refusals = {
      {kInvalid, "query: shape", Shaped(&C::query, {10, 4, 16})},
      {kInvalid, "key: batch size 3", Shaped(&C::key, {3, 9, 1, 16})},
      {kInvalid, "softmaxMaxOut: shape [1, 5, 4], expected [2, 1, 5, 4]",
       Shaped(&C::row_max, {1, 5, 4})},
      {kInvalid, "actualSeqLengthsKvOptional: shape [3]",
       [](C& call) {
         call.key_lengths = call.caller.Input({.type = ACL_INT32, .dims = {3}});
       }},
  };
  ExpectRefusals(Dense(), refusals);
}

void ExpectHardwareLimits() {
  const Case good{.type = ACL_BF16,
                  .page_rows = 32,
                  .heads = 4,
                  .columns = 32,
                  .dim = 512,
                  .v_dim = 512,
                  .rope_dim = 64,
                  .block = 16,
                  .key_lengths = {17, 32},
                  .statistics = false};
  const auto refuse = [&](int64_t Case::*member, int64_t to,
                          const char* words) {
    SCOPED_TRACE(words);
    Case c = good;
    c.*member = to;
    C(c).ExpectFailure(kInvalid, words);
  };
  refuse(&Case::heads, 3, "query: 3 heads");
  refuse(&Case::dim, 128, "query: 128 channels");
  refuse(&Case::rope_dim, 8, "queryRopeOptional: 8 channels");
  refuse(&Case::block, 3, "sparseBlockSize: 3");
  refuse(&Case::page_rows, 8, "key: 8 rows of a block");
}

TEST(SparseChild, DISABLED_Strict) { ExpectHardwareLimits(); }

// What has a meaning but no code on the NPU is refused in strict mode, which a
// process chooses before its first call.
TEST(SparseRefusals, StrictModeKnowsTheHardware) {
  const ChildResult child =
      RunChild("SparseChild.DISABLED_Strict", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
  EXPECT_TRUE(C({.heads = 3}).Run());
}

}  // namespace
}  // namespace flashacl::testing
