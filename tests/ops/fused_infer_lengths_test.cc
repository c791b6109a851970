// SPDX-License-Identifier: Apache-2.0
// Lengths and left padding of aclnnFusedInferAttentionScore.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/testing/fused_infer_by_hand.h"
#include "tests/testing/fused_infer_call.h"

namespace flashacl::testing {
namespace {

TEST(FusedInfer, DecodeIgnoresLengthsAndPaddingOfQueries) {
  FusedInferCase c = Tiny(1, 4);
  c.lengths = {0};
  c.query_padding = 3;
  ExpectMeans(c, {2.5});
  c.layout = "BNSD_BSND";  // is not decode
  c.query_padding.reset();
  ExpectMeans(c, {0});
}

TEST(FusedInfer, LeftPaddingByHand) {
  const auto one = [](int64_t padding) {
    FusedInferCase c = Tiny(1, 8);
    c.kv_lengths = {3};
    c.kv_padding = padding;
    return c;
  };
  ExpectMeans(one(1), {6});
  ExpectMeans(one(-2), {7});
  FusedInferCall none(one(6));
  Count(none);
  ExpectByHand(none, {0}, {kInf});
  FusedInferCase rows = Tiny(4, 2);
  rows.lengths = {2};
  rows.query_padding = 1;
  FusedInferCall call(rows);
  Count(call);
  ExpectByHand(call, {0, 1.5, 1.5, 0},
               {kInf, std::log(2.0), std::log(2.0), kInf});
  FusedInferCase causal = rows;
  causal.mask = FusedMask::kSquare;
  causal.sparse_mode = 2;  // counts from the sequence's first row
  ExpectMeans(causal, {0, 1, 1.5, 0});
}

// Masks and biases have a row and a column per row of the tensors: of rows 1
// and 2 and keys 4 to 6, no others.
TEST(FusedInfer, LeftPaddingMovesNoMaskAndNoBias) {
  FusedInferCase c = Tiny(4, 8);
  c.lengths = {2};
  c.query_padding = 1;
  c.kv_lengths = {3};
  c.kv_padding = 1;
  c.mask = FusedMask::kFull;
  c.pse_sequences = 1;
  FusedInferCall call(c);
  Count(call);
  call.mask->FillWith(1);
  for (const int64_t seen : {4, 5}) call.mask->Set({0, 0, 1, seen}, 0);
  for (const int64_t seen : {4, 5, 6}) call.mask->Set({0, 0, 2, seen}, 0);
  call.pse->FillWith(0);
  call.pse->Set({0, 0, 2, 6}, 30);
  ExpectByHand(call, {0, 5.5, 7, 0});
  FusedInferCase one = c;
  one.rows = 1;
  one.lengths = {};
  one.query_padding = {};
  FusedInferCall decode(one);
  Count(decode);
  decode.mask->FillWith(1);
  for (const int64_t seen : {4, 5}) decode.mask->Set({0, 0, 0, seen}, 0);
  decode.pse->FillWith(0);
  ExpectByHand(decode, {5.5});
}

TEST(FusedInfer, LeftPaddingWithoutLengthsIsNone) {
  FusedInferCase c = Tiny(2, 4);
  c.query_padding = 1;
  c.kv_padding = 2;
  ExpectMeans(c, {2.5, 2.5});
}

TEST(FusedInfer, DecodeIgnoresPaddingOfPagesAndLists) {
  FusedInferCase paged = Tiny(1, 16);
  paged.keys = FusedKeys::kPagesOfRows;
  paged.block_size = 16;
  paged.kv_lengths = {3};
  paged.kv_padding = 2;
  FusedInferCall(paged).ExpectAsDocumented();
  FusedInferCase list = Tiny(1, 0);
  list.sequences = 2;
  list.keys = FusedKeys::kList;
  list.own_columns = {4, 3};
  list.kv_lengths = {2, 2};
  list.kv_padding = 1;
  FusedInferCall(list).ExpectAsDocumented();
}

TEST(FusedInfer, SurplusRowsOfPackedTensorsAreZero) {
  FusedInferCase c = Tiny(0, 0);
  c.layout = "TND";
  c.sequences = 2;
  c.lengths = {1, 1};
  c.kv_lengths = {1, 1};
  c.surplus_rows = 2;
  FusedInferCall call(c);
  Count(call);
  ExpectByHand(call, {1, 2, 0, 0}, {0, 0, kInf, kInf});
}

TEST(FusedInfer, SequencesWithoutRowsOrKeys) {
  FusedInferCase c = Tiny(0, 0);
  c.layout = "TND";
  c.sequences = 4;
  c.lengths = {1, 0, 1, 1};
  c.kv_lengths = {1, 1, 0, 2};
  FusedInferCall call(c);
  Count(call);
  ExpectByHand(call, {1, 0, 3.5}, {0, kInf, std::log(2.0)});
}

FusedInferCase Lengths(std::vector<int64_t> of_rows,
                       std::vector<int64_t> of_keys) {
  FusedInferCase c = Tiny(2, 4);
  c.sequences = 2;
  c.lengths = std::move(of_rows);
  c.kv_lengths = std::move(of_keys);
  return c;
}

TEST(FusedInfer, LengthsOfRowsAndKeys) {
  ExpectMeans(Lengths({}, {}), {2.5, 2.5, 6.5, 6.5});
  ExpectMeans(Lengths({1}, {2}), {1.5, 0, 5.5, 0});
  ExpectMeans(Lengths({1, 2}, {0, 3}), {0, 0, 6, 6});
  ExpectMeans(Lengths({1, 2, 99, -5}, {1, 3, 99}), {1, 0, 6, 6});
}

}  // namespace
}  // namespace flashacl::testing
