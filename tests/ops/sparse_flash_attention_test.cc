// SPDX-License-Identifier: Apache-2.0
// What aclnnSparseFlashAttention and V2 take: one test per statement of their
// document.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/testing/rounding.h"
#include "tests/testing/sparse_call.h"

namespace flashacl::testing {
namespace {

void ExpectAsDocumented(const SparseCase& c) {
  SCOPED_TRACE(ToString(c));
  SparseForwardCall(c).ExpectAsDocumented();
}

SparseCase Dense() {
  return {.packed = false, .query_lengths = {}, .key_lengths = {}};
}

SparseCase Paged() {
  return {.page_rows = 16,
          .columns = 32,
          .top_k = 9,
          .key_lengths = {17, 32},
          .statistics = false};
}

// One head, one query that may list two keys.
SparseForwardCall TwoKeys(SparseCase c) {
  c.packed = false;
  c.sequences = c.heads = c.rows = c.dim = 1;
  c.columns = c.top_k = 2;
  c.v_dim = 2;
  c.rope_dim = 0;
  c.scale = 1;
  c.type = ACL_BF16;
  c.query_lengths = c.key_lengths = {};
  return SparseForwardCall(c);
}

TEST(SparseAttention, EveryLayoutTypeAndMode) {
  for (const int version : {1, 2}) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
      for (const int64_t mode : {0, 3}) {
        for (const bool spread : {false, true}) {
          for (SparseCase c : {SparseCase(), Dense(), Paged()}) {
            c.version = version;
            c.type = type;
            c.mode = mode;
            c.spread = spread;
            ExpectAsDocumented(c);
          }
        }
      }
    }
  }
}

// Scores 0 and 1 of values (4, 0) and (0, 8).
TEST(SparseAttention, TwoKeysByHand) {
  SparseCase c{.packed = false,
               .sequences = 1,
               .heads = 1,
               .rows = 1,
               .columns = 3,
               .dim = 1,
               .v_dim = 2,
               .rope_dim = 0,
               .top_k = 3,
               .scale = 0.5,
               .query_lengths = {},
               .key_lengths = {}};
  for (const bool sink : {false, true}) {
    c.version = sink ? 2 : 1;
    c.sinks = sink;
    SparseForwardCall call(c);
    call.query->SetNth(0, 2);
    for (const auto& [n, k, v0, v1] :
         {std::tuple{0, 0, 4, 0}, {1, 9, 99, 99}, {2, 1, 0, 8}}) {
      call.key->SetNth(n, k);
      call.value->SetNth(2 * n, v0);
      call.value->SetNth(2 * n + 1, v1);
    }
    call.indices->SetNth(0, 2);
    call.indices->SetNth(1, 0);
    call.indices->SetNth(2, -1);
    if (sink) call.sinks->SetNth(0, 2);
    ASSERT_TRUE(call.Run());
    const double max = sink ? 2 : 1;
    const double sum = std::exp(0 - max) + std::exp(1 - max) + (sink ? 1 : 0);
    // Scores are whole. Below 8, f16 rounds by up to 2^-9; the rest is what a
    // weight, a sum and a quotient lose in fp32.
    const double of_sum = (ExpError(2) + 4 * kRoundoff) * sum;
    const double of_out = 0x1p-9 + 8 * (2 * ExpError(2) + 8 * kRoundoff);
    EXPECT_EQ(call.row_max->Nth(0), max);
    EXPECT_NEAR(call.row_sum->Nth(0), sum, of_sum);
    EXPECT_NEAR(call.out->Nth(0), 4 * std::exp(0 - max) / sum, of_out);
    EXPECT_NEAR(call.out->Nth(1), 8 * std::exp(1 - max) / sum, of_out);
  }
}

TEST(SparseAttention, EveryBlockSize) {
  for (const int64_t block : {1, 2, 7, 16, 64, 128}) {
    SparseCase c = Dense();
    c.block = block;
    c.columns = 150;
    c.top_k = 6;
    for (const int64_t mode : {0, 3}) {
      c.mode = mode;
      ExpectAsDocumented(c);
    }
  }
}

TEST(SparseAttention, PackedQueriesOverPages) {
  SparseCase c = Paged();
  c.sequences = 4;
  c.rows = 7;
  c.query_lengths = {2, 2, 3, 7};
  c.key_lengths = {31, 5, 0, 16};
  c.mode = 3;
  ExpectAsDocumented(c);
  c.packed = false;
  c.rows = 3;
  c.query_lengths = {1, 0, 3, 2};
  ExpectAsDocumented(c);
  c.query_lengths = {};
  ExpectAsDocumented(c);
}

TEST(SparseAttention, PagesOfAnySizeAndOrder) {
  for (const int64_t page_rows : {1, 3, 16, 48}) {
    SparseCase c = Paged();
    c.page_rows = page_rows;
    c.columns = 48;
    c.block = 4;
    c.key_lengths = {48, 7};
    ExpectAsDocumented(c);
  }
}

// What no list names is not looked at, nor is what no page holds.
TEST(SparseAttention, WildPagesAreNotFollowed) {
  for (const int64_t page : {int64_t{-1}, int64_t{1} << 30}) {
    SparseForwardCall call(Paged());
    for (int64_t n = 0; n < call.block_table->elements(); ++n) {
      call.block_table->SetNth(n, static_cast<double>(page));
    }
    ASSERT_TRUE(call.Run());
    for (const double x : call.out->Values()) EXPECT_EQ(x, 0);
  }
}

TEST(SparseAttention, CausalFromTheBottomRight) {
  SparseCase c = Dense();
  c.sequences = 1;
  c.rows = 3;
  c.columns = 5;
  c.rope_dim = 0;
  c.top_k = 5;
  c.mode = 3;
  SparseForwardCall call(c);
  for (int64_t n = 0; n < 15; ++n) {
    call.indices->SetNth(n, static_cast<double>(n % 5));
  }
  call.query->FillWith(0);  // all weights are equal
  ASSERT_TRUE(call.Run());
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(call.row_sum->Get({0, 0, i, 0}), static_cast<double>(3 + i));
  }
  c.rows = 7;  // more queries than keys: the first two see nothing
  ExpectAsDocumented(c);
}

TEST(SparseAttention, EmptyListsGiveZeros) {
  for (SparseCase c : {SparseCase(), Dense()}) {
    SparseForwardCall call(c);
    call.indices->FillWith(-1);
    ASSERT_TRUE(call.Run());
    for (const DeviceTensor* tensor : {call.out, call.row_max, call.row_sum}) {
      for (const double x : tensor->Values()) EXPECT_EQ(x, 0);
    }
  }
}

// With a sink, a row that lists nothing has seen the sink.
TEST(SparseAttention, SinksAreKeysWithoutValue) {
  for (SparseCase c : {SparseCase(), Dense()}) {
    c.version = 2;
    c.sinks = true;
    ExpectAsDocumented(c);
    c.sequences = 1;
    c.rows = 1;
    if (c.packed) {
      c.query_lengths = {1};
      c.key_lengths = {9};
    }
    SparseForwardCall call(c);
    call.indices->FillWith(-1);
    ASSERT_TRUE(call.Run());
    for (int64_t h = 0; h < c.heads; ++h) {
      EXPECT_EQ(call.out->Nth(h * c.v_dim), 0);
      EXPECT_EQ(call.row_max->Nth(h), call.sinks->Nth(h));
      EXPECT_EQ(call.row_sum->Nth(h), 1);
    }
  }
}

TEST(SparseAttention, ListsEndAtTheFirstNegative) {
  SparseForwardCall call = TwoKeys({});
  call.indices->SetNth(0, -7);
  call.indices->SetNth(1, 1);
  ASSERT_TRUE(call.Run());
  EXPECT_EQ(call.row_sum->Nth(0), 0);
  call.indices->SetNth(0, 5);  // there is no such key
  ASSERT_TRUE(call.Run());
  EXPECT_EQ(call.row_sum->Nth(0), 1);
}

TEST(SparseAttention, ValueIsATensorOfItsOwnOrTheKey) {
  for (SparseCase c : {SparseCase(), Dense(), Paged()}) {
    c.v_dim = 24;
    ExpectAsDocumented(c);
    c.v_dim = c.dim;
    c.merged = true;
    ExpectAsDocumented(c);
  }
}

TEST(SparseAttention, WithoutRope) {
  for (SparseCase c : {SparseCase(), Dense(), Paged()}) {
    c.rope_dim = 0;
    ExpectAsDocumented(c);
    SparseForwardCall call(c);
    call.query_rope = call.caller.Input({.dims = {0}});
    call.key_rope = call.caller.Input({.dims = {0}});
    EXPECT_TRUE(call.Run());
  }
}

TEST(SparseAttention, LengthsOfPackedSequencesAreCumulative) {
  ExpectAsDocumented({.sequences = 3,
                      .rows = 8,
                      .columns = 12,
                      .query_lengths = {4, 4, 7},
                      .key_lengths = {3, 9, 10}});
}

TEST(SparseAttention, DenseLengthsAreCounts) {
  SparseCase c = Dense();
  c.query_lengths = {2, 5};
  ExpectAsDocumented(c);
  c.key_lengths = {9, 0};
  ExpectAsDocumented(c);
  c.query_lengths = {};
  ExpectAsDocumented(c);
}

TEST(SparseAttention, IndicesAndLengthsOfEitherType) {
  for (const aclDataType type : {ACL_INT32, ACL_INT64}) {
    ExpectAsDocumented({.index_type = type});
    ExpectAsDocumented({.query_length_type = type, .key_length_type = type});
  }
}

TEST(SparseAttention, EveryNumberOfHeads) {
  for (const int64_t heads : {1, 3, 16, 128}) {
    ExpectAsDocumented({.heads = heads, .rows = 3, .query_lengths = {1, 3}});
  }
}

TEST(SparseAttention, StatisticsThatAreNotWantedStayUntouched) {
  SparseCase c = Dense();
  c.statistics = false;
  ExpectAsDocumented(c);  // inputs of the test, which it expects unchanged
  SparseForwardCall none(c);
  none.row_max = none.row_sum = nullptr;
  none.ExpectAsDocumented();
  SparseForwardCall empty(c);
  empty.row_max = empty.caller.Input({.type = ACL_FLOAT, .dims = {0}});
  empty.row_sum =
      empty.caller.Input({.type = ACL_FLOAT, .dims = {1, 2, 1, 16}});
  empty.ExpectAsDocumented();
}

TEST(SparseAttention, TokensAreEitherInfinity) {
  for (const int64_t tokens :
       {int64_t{2147483647}, std::numeric_limits<int64_t>::max()}) {
    SparseForwardCall call;
    call.pre_tokens = call.next_tokens = tokens;
    call.ExpectAsDocumented();
  }
}

TEST(SparseAttention, NoLayoutIsBsnd) {
  SparseForwardCall call(Dense());
  call.query_layout = call.key_layout = nullptr;
  call.ExpectAsDocumented();
}

TEST(SparseAttention, EmptyTensors) {
  SparseCase rowless = Dense();
  rowless.rows = 0;
  EXPECT_TRUE(SparseForwardCall(rowless).Run());
  SparseCase keyless = Dense();
  keyless.columns = 0;
  ExpectAsDocumented(keyless);
  SparseCase blockless = Paged();
  blockless.columns = 0;
  blockless.key_lengths = {0, 0};
  ExpectAsDocumented(blockless);
}

// Latent channels and rope as views of one tensor with both.
TEST(SparseAttention, KeyAndRopeAsViewsOfOneTensor) {
  SparseCase c = Dense();
  c.merged = true;
  SparseForwardCall call(c);
  std::vector<int64_t> strides{9 * 24, 24, 24, 1};
  call.key = call.caller.Input({.dims = {2, 9, 1, 16}, .strides = strides});
  call.key_rope = call.caller.Input(
      {.dims = {2, 9, 1, 8}, .strides = strides, .offset = 16});
  Random random(3);
  call.key->Fill(random, -2, 2);
  call.key_rope->Fill(random, -2, 2);
  call.ExpectAsDocumented();
}

// Whatever lengths hold, rows stay inside.
TEST(SparseAttention, WildLengthsStayInside) {
  for (SparseCase c : {SparseCase(), Paged()}) {
    SparseForwardCall call(c);
    call.query_lengths->SetNth(0, 1e9);
    call.query_lengths->SetNth(1, -7);
    call.key_lengths->SetNth(0, -1e9);
    call.key_lengths->SetNth(1, 1e9);
    EXPECT_TRUE(call.Run());
  }
}

// The newest example: every list names block 1, statistics are not wanted.
TEST(SparseAttention, ExampleProgram) {
  SparseCase c = Dense();
  c.sequences = 1;
  c.heads = 16;
  c.rows = 2;
  c.columns = 128;
  c.dim = c.v_dim = 512;
  c.rope_dim = 64;
  c.top_k = 1;
  c.block = 64;
  c.statistics = false;
  SparseForwardCall call(c);
  call.indices->FillWith(1);
  call.row_max = call.caller.Input({.type = ACL_FLOAT, .dims = {1, 2, 1, 16}});
  call.row_sum = nullptr;
  call.ExpectAsDocumented();
}

}  // namespace
}  // namespace flashacl::testing
