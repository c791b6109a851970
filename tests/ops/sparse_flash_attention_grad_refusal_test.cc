// SPDX-License-Identifier: Apache-2.0
// What aclnnSparseFlashAttentionGrad refuses: one table row per line of its
// validation table, each followed by a call that is fine.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <span>

#include "tests/testing/sparse_call.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kNull = 161001;
constexpr aclnnStatus kInvalid = 161002;

using Member = DeviceTensor* SparseCall::*;

struct Refusal {
  const char* what;
  std::function<void(SparseCall&)> spoil;
  aclnnStatus status;
  const char* words;
};

// Each row spoils a call that is fine otherwise.
void ExpectRefusals(const SparseCase& good, std::span<const Refusal> refusals) {
  SparseCall fine(good);
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.what);
    SparseCall call(good);
    refusal.spoil(call);
    call.ExpectFailure(refusal.status, refusal.words);
    EXPECT_TRUE(fine.Run());  // a refusal leaves nothing behind
  }
}

SparseCase Dense() {
  return {.packed = false, .query_lengths = {}, .key_lengths = {}};
}

bool IsOutput(Member member) {
  return member == &SparseCall::grad_query || member == &SparseCall::grad_key ||
         member == &SparseCall::grad_value ||
         member == &SparseCall::grad_query_rope ||
         member == &SparseCall::grad_key_rope;
}

void Replace(SparseCall& call, Member member, Form form) {
  DeviceTensor* const before = call.*member;
  call.*member = IsOutput(member) ? call.caller.Output(std::move(form))
                                  : call.caller.Input(std::move(form));
  if (before != nullptr) call.caller.Forget(before);
}

std::function<void(SparseCall&)> Without(Member member) {
  return [=](SparseCall& c) { c.*member = nullptr; };
}

std::function<void(SparseCall&)> Typed(Member member, aclDataType type) {
  return [=](SparseCall& c) {
    Replace(c, member, {.type = type, .dims = (c.*member)->form().dims});
  };
}

std::function<void(SparseCall&)> Shaped(Member member,
                                        std::vector<int64_t> dims) {
  return [=](SparseCall& c) {
    Replace(c, member, {.type = (c.*member)->form().type, .dims = dims});
  };
}

TEST(SparseGradRefusals, Null) {
  const Refusal refusals[] = {
      {"query", Without(&SparseCall::query), kNull, "query"},
      {"key", Without(&SparseCall::key), kNull, "key"},
      {"value", Without(&SparseCall::value), kNull, "The value cannot"},
      {"indices", Without(&SparseCall::indices), kNull, "sparseIndices"},
      {"dOut", Without(&SparseCall::grad_out), kNull, "dOut"},
      {"out", Without(&SparseCall::out), kNull, "The out cannot"},
      {"max", Without(&SparseCall::row_max), kNull, "softmaxMax"},
      {"sum", Without(&SparseCall::row_sum), kNull, "softmaxSum"},
      {"dQuery", Without(&SparseCall::grad_query), kNull, "dQueryOut"},
      {"dKey", Without(&SparseCall::grad_key), kNull, "dKeyOut"},
      {"dValue", Without(&SparseCall::grad_value), kNull, "The dValueOut"},
      {"dQueryRope", Without(&SparseCall::grad_query_rope), kNull,
       "dQueryRopeOutOptional"},
      {"dKeyRope", Without(&SparseCall::grad_key_rope), kNull,
       "dKeyRopeOutOptional"},
      {"dQueryRope [0]", Shaped(&SparseCall::grad_query_rope, {0}), kNull,
       "dQueryRopeOutOptional"},
  };
  ExpectRefusals({}, refusals);
  ExpectRefusals(Dense(), refusals);
}

TEST(SparseGradRefusals, PackedWithoutLengths) {
  const Refusal refusals[] = {
      {"query", Without(&SparseCall::query_lengths), kNull,
       "actualSeqLengthsQueryOptional"},
      {"key", Without(&SparseCall::key_lengths), kNull,
       "actualSeqLengthskvOptional"},
      {"scalar", Shaped(&SparseCall::query_lengths, {}), kNull,
       "actualSeqLengthsQueryOptional"},
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, TypesOfNumbers) {
  const std::pair<Member, const char*> halves[] = {
      {&SparseCall::query, "query: data type"},
      {&SparseCall::key, "key: data type"},
      {&SparseCall::value, "value: data type"},
      {&SparseCall::grad_out, "dOut: data type"},
      {&SparseCall::out, "out: data type"},
      {&SparseCall::query_rope, "queryRopeOptional: data type"},
      {&SparseCall::key_rope, "keyRopeOptional: data type"},
      {&SparseCall::grad_query, "dQueryOut: data type"},
      {&SparseCall::grad_key, "dKeyOut: data type"},
      {&SparseCall::grad_value, "dValueOut: data type"},
      {&SparseCall::grad_query_rope, "dQueryRopeOutOptional: data type"},
      {&SparseCall::grad_key_rope, "dKeyRopeOutOptional: data type"},
  };
  std::vector<Refusal> refusals;
  for (const auto& [member, words] : halves) {
    refusals.push_back({words, Typed(member, ACL_FLOAT), kInvalid, words});
    refusals.push_back({words, Typed(member, ACL_INT8), kInvalid, words});
    const bool query = member == &SparseCall::query;  // then key is another
    refusals.push_back({words, Typed(member, ACL_BF16), kInvalid,
                        query ? "key: data type" : words});
  }
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, OtherTypes) {
  const Refusal refusals[] = {
      {"indices", Typed(&SparseCall::indices, ACL_FLOAT), kInvalid,
       "sparseIndices: data type"},
      {"unsigned", Typed(&SparseCall::indices, ACL_UINT64), kInvalid,
       "sparseIndices: data type"},
      {"max", Typed(&SparseCall::row_max, ACL_FLOAT16), kInvalid,
       "softmaxMax: data type"},
      {"sum", Typed(&SparseCall::row_sum, ACL_DOUBLE), kInvalid,
       "softmaxSum: data type"},
      {"query lengths", Typed(&SparseCall::query_lengths, ACL_FLOAT), kInvalid,
       "actualSeqLengthsQueryOptional: data type"},
      {"key lengths", Typed(&SparseCall::key_lengths, ACL_INT8), kInvalid,
       "actualSeqLengthskvOptional: data type"},
      {"private format",
       [](SparseCall& c) {
         Form form = c.key->form();
         form.format = ACL_FORMAT_FRACTAL_NZ;
         Replace(c, &SparseCall::key, form);
       },
       kInvalid, "key: private format"},
  };
  ExpectRefusals({}, refusals);
}

Refusal Layout(const char* text) {
  return {text, [text](SparseCall& c) { c.layout = const_cast<char*>(text); },
          kInvalid, "layoutOptional"};
}

TEST(SparseGradRefusals, Layouts) {
  const Refusal refusals[] = {
      Layout(""),    Layout("tnd"),  Layout("BSH"),
      Layout("SBH"), Layout("BNSD"), Layout("TNDX"),
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, ModesAndBlocks) {
  std::vector<Refusal> refusals;
  for (const int64_t mode : {-1, 1, 2, 4, 5, 6, 7, 8, 9}) {
    refusals.push_back({"mode", [=](SparseCall& c) { c.asked.mode = mode; },
                        kInvalid, "sparseMode"});
  }
  for (const int64_t block :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    refusals.push_back({"block", [=](SparseCall& c) { c.asked.block = block; },
                        kInvalid, "sparseBlockSize"});
  }
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, PackedShapes) {
  const Refusal refusals[] = {
      {"rank", Shaped(&SparseCall::query, {1, 5, 4, 16}), kInvalid,
       "query: shape"},
      {"rank of key", Shaped(&SparseCall::key, {9, 16}), kInvalid,
       "key: shape"},
      {"kv heads", Shaped(&SparseCall::key, {9, 2, 16}), kInvalid,
       "key: 2 heads"},
      {"D", Shaped(&SparseCall::key, {9, 1, 8}), kInvalid, "key: head dim 8"},
      {"rows of value", Shaped(&SparseCall::value, {8, 1, 16}), kInvalid,
       "value: shape"},
      {"heads of value", Shaped(&SparseCall::value, {9, 2, 16}), kInvalid,
       "value: shape"},
      {"rank of value", Shaped(&SparseCall::value, {9, 16}), kInvalid,
       "value: shape"},
      {"rows of dOut", Shaped(&SparseCall::grad_out, {4, 4, 16}), kInvalid,
       "dOut: shape"},
      {"Dv of dOut", Shaped(&SparseCall::grad_out, {5, 4, 8}), kInvalid,
       "dOut: shape"},
      {"heads of out", Shaped(&SparseCall::out, {5, 2, 16}), kInvalid,
       "out: shape"},
      {"dQuery", Shaped(&SparseCall::grad_query, {5, 4, 8}), kInvalid,
       "dQueryOut: shape"},
      {"dKey", Shaped(&SparseCall::grad_key, {8, 1, 16}), kInvalid,
       "dKeyOut: shape"},
      {"dValue", Shaped(&SparseCall::grad_value, {9, 16}), kInvalid,
       "dValueOut: shape"},
      {"rows of indices", Shaped(&SparseCall::indices, {4, 1, 4}), kInvalid,
       "sparseIndices: shape"},
      {"heads of indices", Shaped(&SparseCall::indices, {5, 4, 4}), kInvalid,
       "sparseIndices: shape"},
      {"K 0", Shaped(&SparseCall::indices, {5, 1, 0}), kInvalid,
       "sparseIndices: shape"},
      {"rank of indices", Shaped(&SparseCall::indices, {5, 4}), kInvalid,
       "sparseIndices: shape"},
      {"max", Shaped(&SparseCall::row_max, {5, 4}), kInvalid,
       "softmaxMax: shape"},
      {"lanes", Shaped(&SparseCall::row_max, {5, 4, 8}), kInvalid,
       "softmaxMax: shape"},
      {"sum", Shaped(&SparseCall::row_sum, {1, 4, 5}), kInvalid,
       "softmaxSum: shape"},
      {"query lengths", Shaped(&SparseCall::query_lengths, {2, 1}), kInvalid,
       "actualSeqLengthsQueryOptional: shape"},
      {"key lengths", Shaped(&SparseCall::key_lengths, {3}), kInvalid,
       "actualSeqLengthskvOptional: shape"},
      {"no key lengths", Shaped(&SparseCall::key_lengths, {0}), kInvalid,
       "actualSeqLengthskvOptional: shape"},
      {"no lengths",
       [](SparseCall& c) {
         Shaped(&SparseCall::query_lengths, {0})(c);
         Shaped(&SparseCall::key_lengths, {0})(c);
       },
       kInvalid, "actualSeqLengthsQueryOptional: 0 sequences"},
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, DenseShapes) {
  const Refusal refusals[] = {
      {"rank", Shaped(&SparseCall::query, {5, 4, 16}), kInvalid,
       "query: shape"},
      {"B of key", Shaped(&SparseCall::key, {1, 9, 1, 16}), kInvalid,
       "key: batch size 1"},
      {"kv heads", Shaped(&SparseCall::key, {2, 9, 4, 16}), kInvalid,
       "key: 4 heads"},
      {"D", Shaped(&SparseCall::key, {2, 9, 1, 32}), kInvalid,
       "key: head dim 32"},
      {"B of value", Shaped(&SparseCall::value, {1, 9, 1, 16}), kInvalid,
       "value: shape"},
      {"B of indices", Shaped(&SparseCall::indices, {1, 5, 1, 4}), kInvalid,
       "sparseIndices: shape"},
      {"rows of indices", Shaped(&SparseCall::indices, {2, 4, 1, 4}), kInvalid,
       "sparseIndices: shape"},
      {"max", Shaped(&SparseCall::row_max, {2, 5, 1, 4}), kInvalid,
       "softmaxMax: shape"},
      {"max, packed", Shaped(&SparseCall::row_max, {1, 10, 4}), kInvalid,
       "softmaxMax: shape"},
      {"sum", Shaped(&SparseCall::row_sum, {2, 1, 5}), kInvalid,
       "softmaxSum: shape"},
      {"rank of value", Shaped(&SparseCall::value, {9, 16}), kInvalid,
       "value: shape [9, 16] does not match key's [2, 9, 1, 16] with last axis "
       "16"},
      {"lengths",
       [](SparseCall& c) {
         c.key_lengths = c.caller.Input({.type = ACL_INT32, .dims = {3}});
       },
       kInvalid, "actualSeqLengthskvOptional: shape"},
  };
  ExpectRefusals(Dense(), refusals);
}

// As many as a shape can say, without memory to show for it.
TEST(SparseGradRefusals, MoreSequencesThanAPlanHasRoomFor) {
  constexpr int64_t kMany = int64_t{1} << 40;
  const Refusal packed[] = {
      {"lengths",
       [](SparseCall& c) {
         const Form lengths{ACL_INT32, {kMany}, {0}};
         Replace(c, &SparseCall::query_lengths, lengths);
         Replace(c, &SparseCall::key_lengths, lengths);
       },
       kInvalid, "actualSeqLengthsQueryOptional: 1099511627776 sequences"},
  };
  ExpectRefusals({}, packed);
  const Member members[] = {
      &SparseCall::query,         &SparseCall::key,
      &SparseCall::value,         &SparseCall::indices,
      &SparseCall::grad_out,      &SparseCall::out,
      &SparseCall::row_max,       &SparseCall::row_sum,
      &SparseCall::query_rope,    &SparseCall::key_rope,
      &SparseCall::grad_query,    &SparseCall::grad_key,
      &SparseCall::grad_value,    &SparseCall::grad_query_rope,
      &SparseCall::grad_key_rope,
  };
  const Refusal dense[] = {
      {"batches of no rows",
       [&](SparseCall& c) {
         for (const Member member : members) {
           std::vector<int64_t> dims = (c.*member)->form().dims;
           const bool statistic =
               member == &SparseCall::row_max || member == &SparseCall::row_sum;
           dims[0] = kMany;
           dims[statistic ? 2 : 1] = 0;
           Shaped(member, dims)(c);
         }
       },
       kInvalid, "query: 1099511627776 sequences"},
  };
  ExpectRefusals(Dense(), dense);
}

TEST(SparseGradRefusals, Rope) {
  const Refusal refusals[] = {
      {"rows", Shaped(&SparseCall::query_rope, {4, 4, 8}), kInvalid,
       "queryRopeOptional: shape"},
      {"rank", Shaped(&SparseCall::query_rope, {5, 32}), kInvalid,
       "queryRopeOptional: shape"},
      {"Dr", Shaped(&SparseCall::key_rope, {9, 1, 4}), kInvalid,
       "keyRopeOptional: shape"},
      {"heads", Shaped(&SparseCall::key_rope, {9, 4, 8}), kInvalid,
       "keyRopeOptional: shape"},
      {"dQueryRope", Shaped(&SparseCall::grad_query_rope, {5, 4, 16}), kInvalid,
       "dQueryRopeOutOptional: shape"},
      {"dKeyRope", Shaped(&SparseCall::grad_key_rope, {8, 1, 8}), kInvalid,
       "dKeyRopeOutOptional: shape"},
  };
  ExpectRefusals({}, refusals);
}

}  // namespace
}  // namespace flashacl::testing
