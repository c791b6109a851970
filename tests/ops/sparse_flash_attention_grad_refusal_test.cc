// SPDX-License-Identifier: Apache-2.0
// What aclnnSparseFlashAttentionGrad refuses: one table row per line of its
// validation table.
#include <gtest/gtest.h>

#include "tests/testing/refusal.h"
#include "tests/testing/sparse_call.h"

namespace flashacl::testing {
namespace {

using C = SparseBackwardCall;
using Refusals = std::vector<Refusal<C>>;

SparseCase Dense() {
  return {.packed = false, .query_lengths = {}, .key_lengths = {}};
}

TEST(SparseGradRefusals, Null) {
  const Refusals refusals = {
      {kNull, "dQueryRopeOutOptional", Shaped(&C::grad_query_rope, {0})},
      {kNull, "actualSeqLengthsQueryOptional", Shaped(&C::query_lengths, {})},
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, TypesThatDiffer) {
  const Refusals refusals = {
      {kInvalid, "key: data type", Typed(&C::query, ACL_BF16)},
      {kInvalid, "key: data type", Typed(&C::key, ACL_BF16)},
      {kInvalid, "value: data type", Typed(&C::value, ACL_BF16)},
      {kInvalid, "dOut: data type", Typed(&C::grad_out, ACL_BF16)},
      {kInvalid, "out: data type", Typed(&C::out, ACL_BF16)},
      {kInvalid, "queryRopeOptional: data type",
       Typed(&C::query_rope, ACL_BF16)},
      {kInvalid, "keyRopeOptional: data type", Typed(&C::key_rope, ACL_BF16)},
      {kInvalid, "dQueryOut: data type", Typed(&C::grad_query, ACL_BF16)},
      {kInvalid, "dKeyOut: data type", Typed(&C::grad_key, ACL_BF16)},
      {kInvalid, "dValueOut: data type", Typed(&C::grad_value, ACL_BF16)},
      {kInvalid, "dQueryRopeOutOptional: data type",
       Typed(&C::grad_query_rope, ACL_BF16)},
      {kInvalid, "dKeyRopeOutOptional: data type",
       Typed(&C::grad_key_rope, ACL_BF16)},
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, LayoutsModesAndBlocks) {
  Refusals refusals;
  for (const char* text : {"", "tnd", "BSH", "SBH", "BNSD", "TNDX"}) {
    refusals.push_back({kInvalid, "layoutOptional", Set(&C::layout, text)});
  }
  for (const int64_t mode : {1, 2, 4, 5, 6, 7, 8, 9}) {
    refusals.push_back(
        {kInvalid, "sparseMode", [=](C& c) { c.asked.mode = mode; }});
  }
  for (const int64_t block : {int64_t{0}, INT64_MIN}) {
    refusals.push_back(
        {kInvalid, "sparseBlockSize", [=](C& c) { c.asked.block = block; }});
  }
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, PackedShapes) {
  const Refusals refusals = {
      {kInvalid, "query: shape", Shaped(&C::query, {1, 5, 4, 16})},
      {kInvalid, "key: shape", Shaped(&C::key, {9, 16})},
      {kInvalid, "key: 2 heads", Shaped(&C::key, {9, 2, 16})},
      {kInvalid, "key: head dim 8", Shaped(&C::key, {9, 1, 8})},
      {kInvalid, "value: shape", Shaped(&C::value, {8, 1, 16})},
      {kInvalid, "value: shape", Shaped(&C::value, {9, 2, 16})},
      {kInvalid, "value: shape", Shaped(&C::value, {9, 16})},
      {kInvalid, "dOut: shape", Shaped(&C::grad_out, {4, 4, 16})},
      {kInvalid, "dOut: shape", Shaped(&C::grad_out, {5, 4, 8})},
      {kInvalid, "out: shape", Shaped(&C::out, {5, 2, 16})},
      {kInvalid, "dQueryOut: shape", Shaped(&C::grad_query, {5, 4, 8})},
      {kInvalid, "dKeyOut: shape", Shaped(&C::grad_key, {8, 1, 16})},
      {kInvalid, "dValueOut: shape", Shaped(&C::grad_value, {9, 16})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {4, 1, 4})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {5, 4, 4})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {5, 1, 0})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {5, 4})},
      {kInvalid, "softmaxMax: shape", Shaped(&C::row_max, {5, 4})},
      {kInvalid, "softmaxMax: shape", Shaped(&C::row_max, {5, 4, 8})},
      {kInvalid, "softmaxSum: shape", Shaped(&C::row_sum, {1, 4, 5})},
      {kInvalid, "actualSeqLengthsQueryOptional: shape",
       Shaped(&C::query_lengths, {2, 1})},
      {kInvalid, "actualSeqLengthskvOptional: shape",
       Shaped(&C::key_lengths, {3})},
      {kInvalid, "actualSeqLengthskvOptional: shape",
       Shaped(&C::key_lengths, {0})},
      {kInvalid, "actualSeqLengthsQueryOptional: 0 sequences",
       [](C& c) {
         Shaped(&C::query_lengths, {0})(c);
         Shaped(&C::key_lengths, {0})(c);
       }},
  };
  ExpectRefusals({}, refusals);
}

TEST(SparseGradRefusals, DenseShapes) {
  const Refusals refusals = {
      {kInvalid, "query: shape", Shaped(&C::query, {5, 4, 16})},
      {kInvalid, "key: batch size 1", Shaped(&C::key, {1, 9, 1, 16})},
      {kInvalid, "key: 4 heads", Shaped(&C::key, {2, 9, 4, 16})},
      {kInvalid, "key: head dim 32", Shaped(&C::key, {2, 9, 1, 32})},
      {kInvalid, "value: shape", Shaped(&C::value, {1, 9, 1, 16})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {1, 5, 1, 4})},
      {kInvalid, "sparseIndices: shape", Shaped(&C::indices, {2, 4, 1, 4})},
      {kInvalid, "softmaxMax: shape", Shaped(&C::row_max, {2, 5, 1, 4})},
      {kInvalid, "softmaxMax: shape", Shaped(&C::row_max, {1, 10, 4})},
      {kInvalid, "softmaxSum: shape", Shaped(&C::row_sum, {2, 1, 5})},
      {kInvalid,
       "value: shape [9, 16] does not match key's [2, 9, 1, 16] with last axis "
       "16",
       Shaped(&C::value, {9, 16})},
      {kInvalid, "actualSeqLengthskvOptional: shape",
       [](C& c) {
         c.key_lengths = c.caller.Input({.type = ACL_INT32, .dims = {3}});
       }},
  };
  ExpectRefusals(Dense(), refusals);
}

// As many as a shape can say, without memory to show for it.
TEST(SparseGradRefusals, MoreSequencesThanAPlanHasRoomFor) {
  constexpr int64_t kMany = int64_t{1} << 40;
  const Refusals packed = {
      {kInvalid, "actualSeqLengthsQueryOptional: 1099511627776 sequences",
       [](C& c) {
         const Form lengths{ACL_INT32, {kMany}, {0}};
         c.caller.Replace(c.query_lengths, lengths);
         c.caller.Replace(c.key_lengths, lengths);
       }},
  };
  ExpectRefusals({}, packed);
  DeviceTensor* C::*const members[] = {
      &C::query,         &C::key,
      &C::value,         &C::indices,
      &C::grad_out,      &C::out,
      &C::row_max,       &C::row_sum,
      &C::query_rope,    &C::key_rope,
      &C::grad_query,    &C::grad_key,
      &C::grad_value,    &C::grad_query_rope,
      &C::grad_key_rope,
  };
  const Refusals dense = {
      {kInvalid, "query: 1099511627776 sequences",
       [&](C& c) {
         for (const auto member : members) {
           std::vector<int64_t> dims = (c.*member)->form().dims;
           const bool statistic =
               member == &C::row_max || member == &C::row_sum;
           dims[0] = kMany;
           dims[statistic ? 2 : 1] = 0;
           Shaped(member, dims)(c);
         }
       }},
  };
  ExpectRefusals(Dense(), dense);
}

TEST(SparseGradRefusals, Rope) {
  const Refusals refusals = {
      {kInvalid, "queryRopeOptional: shape", Shaped(&C::query_rope, {4, 4, 8})},
      {kInvalid, "queryRopeOptional: shape", Shaped(&C::query_rope, {5, 32})},
      {kInvalid, "keyRopeOptional: shape", Shaped(&C::key_rope, {9, 1, 4})},
      {kInvalid, "keyRopeOptional: shape", Shaped(&C::key_rope, {9, 4, 8})},
      {kInvalid, "dQueryRopeOutOptional: shape",
       Shaped(&C::grad_query_rope, {5, 4, 16})},
      {kInvalid, "dKeyRopeOutOptional: shape",
       Shaped(&C::grad_key_rope, {8, 1, 8})},
  };
  ExpectRefusals({}, refusals);
}

}  // namespace
}  // namespace flashacl::testing
