// SPDX-License-Identifier: Apache-2.0
// What aclnnSparseFlashAttention and V2 refuse.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tests/testing/sparse_forward_call.h"

namespace flashacl::testing {
namespace {

using Case = SparseForwardCase;
using Call = SparseForwardCall;

constexpr aclnnStatus kNull = 161001;
constexpr aclnnStatus kInvalid = 161002;

struct Refusal {
  const char* what;
  std::function<void(Call&)> spoil;
  aclnnStatus status;
  const char* words;
};

// Each row spoils a call that is fine otherwise.
void ExpectRefusals(const Case& good, std::span<const Refusal> refusals) {
  Call fine(good);
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.what);
    Call call(good);
    refusal.spoil(call);
    call.ExpectFailure(refusal.status, refusal.words);
  }
  EXPECT_TRUE(fine.Run());  // refusals leave nothing behind
}

using Member = DeviceTensor* Call::*;

std::function<void(Call&)> Without(Member member) {
  return [=](Call& call) { call.*member = nullptr; };
}

void Replace(Call& call, Member member, Form form) {
  const bool output = member == &Call::out || member == &Call::row_max ||
                      member == &Call::row_sum;
  DeviceTensor* const before = call.*member;
  call.*member = output ? call.caller.Output(std::move(form))
                        : call.caller.Input(std::move(form));
  if (before != nullptr) call.caller.Forget(before);
}

std::function<void(Call&)> Shaped(Member member, std::vector<int64_t> dims,
                                  aclDataType type = ACL_FLOAT16) {
  return [=](Call& call) {
    Form form{.type = type, .dims = dims};
    if (call.*member != nullptr) form.type = (call.*member)->form().type;
    Replace(call, member, form);
  };
}

std::function<void(Call&)> Typed(Member member, aclDataType type) {
  return [=](Call& call) {
    Replace(call, member, {.type = type, .dims = (call.*member)->form().dims});
  };
}

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
  const Refusal refusals[] = {
      {"query", Without(&Call::query), kNull, "query"},
      {"key", Without(&Call::key), kNull, "key"},
      {"indices", Without(&Call::indices), kNull, "sparseIndices"},
      {"out", Without(&Call::out), kNull, "attentionOut"},
      {"query lengths", Without(&Call::query_lengths), kNull,
       "actualSeqLengthsQueryOptional cannot be nullptr in layout TND"},
      {"key lengths", Without(&Call::key_lengths), kNull,
       "actualSeqLengthsKvOptional cannot be nullptr"},
      {"query rope", Without(&Call::query_rope), kNull, "queryRopeOptional"},
      {"key rope", Without(&Call::key_rope), kNull, "keyRopeOptional"},
      {"row max", Without(&Call::row_max), kNull, "softmaxMaxOut"},
      {"row sum", Without(&Call::row_sum), kNull, "softmaxSumOut"},
  };
  for (const int version : {1, 2}) {
    ExpectRefusals({.version = version}, refusals);
  }
  const Refusal paged[] = {
      {"key lengths", Without(&Call::key_lengths), kNull,
       "actualSeqLengthsKvOptional"},
  };
  ExpectRefusals(Paged(), paged);
}

TEST(SparseRefusals, Types) {
  const Refusal refusals[] = {
      {"query", Typed(&Call::query, ACL_FLOAT), kInvalid, "query: data type"},
      {"key", Typed(&Call::key, ACL_BF16), kInvalid, "key: data type"},
      {"value", Typed(&Call::value, ACL_BF16), kInvalid, "value: data type"},
      {"rope", Typed(&Call::key_rope, ACL_BF16), kInvalid,
       "keyRopeOptional: data type"},
      {"out", Typed(&Call::out, ACL_BF16), kInvalid, "attentionOut: data type"},
      {"indices", Typed(&Call::indices, ACL_FLOAT), kInvalid,
       "sparseIndices: data type"},
      {"lengths", Typed(&Call::key_lengths, ACL_INT8), kInvalid,
       "actualSeqLengthsKvOptional: data type"},
      {"statistics", Typed(&Call::row_max, ACL_FLOAT16), kInvalid,
       "softmaxMaxOut: data type"},
      {"private format",
       [](Call& call) {
         Form form = call.key->form();
         form.format = ACL_FORMAT_FRACTAL_NZ;
         Replace(call, &Call::key, form);
       },
       kInvalid, "key: private format"},
  };
  ExpectRefusals({}, refusals);
  const Refusal paged[] = {
      {"table", Typed(&Call::block_table, ACL_INT64), kInvalid,
       "blockTableOptional: data type"},
  };
  ExpectRefusals(Paged(), paged);
  const Refusal sunk[] = {
      {"sinks", Typed(&Call::sinks, ACL_FLOAT16), kInvalid,
       "sinksOptional: data type"},
  };
  ExpectRefusals({.version = 2, .sinks = true}, sunk);
}

TEST(SparseRefusals, Values) {
  const auto layouts = [](const char* query, const char* key) {
    return [=](Call& call) {
      call.query_layout = const_cast<char*>(query);
      call.key_layout = const_cast<char*>(key);
    };
  };
  const Refusal refusals[] = {
      {"query layout", layouts("BNSD", "TND"), kInvalid,
       "layoutQuery: \"BNSD\""},
      {"pages of queries", layouts("PA_BSND", "TND"), kInvalid,
       "layoutQuery: \"PA_BSND\""},
      {"key layout", layouts("TND", "PA_BNSD"), kInvalid,
       "layoutKv: \"PA_BNSD\""},
      {"other key layout", layouts("TND", "BSND"), kInvalid,
       "layoutKv: \"BSND\", expected TND"},
      {"mode", [](Call& call) { call.asked.mode = 2; }, kInvalid,
       "sparseMode: 2"},
      {"block", [](Call& call) { call.asked.block = 0; }, kInvalid,
       "sparseBlockSize: 0"},
      {"pre", [](Call& call) { call.pre_tokens = 4; }, kInvalid,
       "preTokens: 4"},
      {"next", [](Call& call) { call.next_tokens = 0; }, kInvalid,
       "nextTokens: 0"},
      {"attention mode", [](Call& call) { call.attention_mode = 0; }, kInvalid,
       "attentionMode: 0, expected 2"},
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseRefusals, WhatPagesExclude) {
  const Refusal refusals[] = {
      {"no table", Without(&Call::block_table), kInvalid,
       "blockTableOptional: absent"},
      {"statistics", [](Call& call) { call.asked.statistics = true; }, kInvalid,
       "returnSoftmaxLse: true, but keys are in pages"},
      {"sinks",
       [](Call& call) {
         call.sinks = call.caller.Input({.type = ACL_FLOAT, .dims = {4}});
       },
       kInvalid, "sinksOptional: given, but keys are in pages"},
      {"rank of the table", Shaped(&Call::block_table, {6}), kInvalid,
       "blockTableOptional: shape [6], expected [2, blocks]"},
      {"short table", Shaped(&Call::block_table, {1, 3}), kInvalid,
       "blockTableOptional: shape [1, 3]"},
      {"rank of keys", Shaped(&Call::key, {96, 1, 16}), kInvalid,
       "key: shape [96, 1, 16]"},
      {"blocks of value", Shaped(&Call::value, {5, 16, 1, 16}), kInvalid,
       "value: shape [5, 16, 1, 16]"},
      {"blocks of rope", Shaped(&Call::key_rope, {6, 8, 1, 8}), kInvalid,
       "keyRopeOptional: shape [6, 8, 1, 8]"},
      {"lengths", Shaped(&Call::key_lengths, {3}), kInvalid,
       "actualSeqLengthsKvOptional: shape [3], expected [2]"},
  };
  ExpectRefusals(Paged(), refusals);
  const Refusal unpaged[] = {
      {"table",
       [](Call& call) {
         call.block_table =
             call.caller.Input({.type = ACL_INT32, .dims = {2, 1}});
       },
       kInvalid, "blockTableOptional: given, but layoutKv is not PA_BSND"},
  };
  ExpectRefusals({}, unpaged);
}

TEST(SparseRefusals, PackedShapes) {
  const Refusal refusals[] = {
      {"rank of query", Shaped(&Call::query, {1, 5, 4, 16}), kInvalid,
       "query: shape"},
      {"rank of key", Shaped(&Call::key, {1, 9, 1, 16}), kInvalid,
       "key: shape"},
      {"heads of key", Shaped(&Call::key, {9, 2, 16}), kInvalid,
       "key: 2 heads"},
      {"D of key", Shaped(&Call::key, {9, 1, 8}), kInvalid, "key: head dim 8"},
      {"rows of value", Shaped(&Call::value, {8, 1, 16}), kInvalid,
       "value: shape"},
      {"rows of out", Shaped(&Call::out, {4, 4, 16}), kInvalid,
       "attentionOut: shape"},
      {"Dv of out", Shaped(&Call::out, {5, 4, 8}), kInvalid,
       "attentionOut: shape"},
      {"heads of rope", Shaped(&Call::query_rope, {5, 2, 8}), kInvalid,
       "queryRopeOptional: shape"},
      {"channels of rope", Shaped(&Call::key_rope, {9, 1, 4}), kInvalid,
       "keyRopeOptional: shape"},
      {"rows of lists", Shaped(&Call::indices, {4, 1, 4}), kInvalid,
       "sparseIndices: shape"},
      {"heads of lists", Shaped(&Call::indices, {5, 4, 4}), kInvalid,
       "sparseIndices: shape"},
      {"K 0", Shaped(&Call::indices, {5, 1, 0}), kInvalid,
       "sparseIndices: shape"},
      {"row max", Shaped(&Call::row_max, {5, 4}), kInvalid,
       "softmaxMaxOut: shape [5, 4], expected [1, 5, 4]"},
      {"row sum of 8 lanes", Shaped(&Call::row_sum, {5, 4, 8}), kInvalid,
       "softmaxSumOut: shape"},
      {"rank of lengths", Shaped(&Call::query_lengths, {2, 1}), kInvalid,
       "actualSeqLengthsQueryOptional: shape"},
      {"number of lengths", Shaped(&Call::key_lengths, {3}), kInvalid,
       "actualSeqLengthsKvOptional: shape [3], expected [2]"},
      {"no sequences",
       [](Call& call) {
         Shaped(&Call::query_lengths, {0})(call);
         Shaped(&Call::key_lengths, {0})(call);
       },
       kInvalid, "actualSeqLengthsQueryOptional: 0 sequences"},
      {"more than a plan has room for",
       [](Call& call) {
         for (const Member member :
              {&Call::query_lengths, &Call::key_lengths}) {
           Replace(
               call, member,
               {.type = ACL_INT32, .dims = {(1 << 20) + 1}, .strides = {0}});
         }
       },
       kInvalid, "actualSeqLengthsQueryOptional: 1048577 sequences"},
  };
  ExpectRefusals({}, refusals);
  const Refusal sunk[] = {
      {"sinks", Shaped(&Call::sinks, {3}), kInvalid,
       "sinksOptional: shape [3], expected [4]"},
      {"rank of sinks", Shaped(&Call::sinks, {1, 4}), kInvalid,
       "sinksOptional: shape [1, 4]"},
  };
  ExpectRefusals({.version = 2, .sinks = true}, sunk);
}

TEST(SparseRefusals, DenseShapes) {
  const Refusal refusals[] = {
      {"rank of query", Shaped(&Call::query, {10, 4, 16}), kInvalid,
       "query: shape"},
      {"batch of key", Shaped(&Call::key, {3, 9, 1, 16}), kInvalid,
       "key: batch size 3"},
      {"row max", Shaped(&Call::row_max, {1, 5, 4}), kInvalid,
       "softmaxMaxOut: shape [1, 5, 4], expected [2, 1, 5, 4]"},
      {"lengths",
       [](Call& call) {
         call.key_lengths = call.caller.Input({.type = ACL_INT32, .dims = {3}});
       },
       kInvalid, "actualSeqLengthsKvOptional: shape [3]"},
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
    Call(c).ExpectFailure(kInvalid, words);
  };
  refuse(&Case::heads, 3, "query: 3 heads");
  refuse(&Case::dim, 128, "query: 128 channels");
  refuse(&Case::rope_dim, 8, "queryRopeOptional: 8 channels");
  refuse(&Case::block, 3, "sparseBlockSize: 3");
  refuse(&Case::page_rows, 8, "key: 8 rows of a block");
}

// What has a meaning but no code on the NPU is refused in strict mode, which a
// process chooses before its first call.
TEST(SparseRefusals, StrictModeKnowsTheHardware) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("FLASHACL_STRICT", "1", 1);
        ExpectHardwareLimits();
        std::exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(Call({.heads = 3}).Run());
}

}  // namespace
}  // namespace flashacl::testing
