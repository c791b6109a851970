// SPDX-License-Identifier: Apache-2.0
// Sparse modes and biases of aclnnPromptFlashAttentionV2 and V3, and what of
// them is refused.
#include "ops/inference_mask.h"

#include <gtest/gtest.h>

#include "tests/testing/prompt_call.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kInvalid = 161002;
constexpr aclnnStatus kContradiction = 561103;
constexpr int64_t kFar = 2147483647;

// Three queries of five keys. Values are unit vectors and all scores are equal,
// so that a row of the answer shows which keys it saw.
struct Seen {
  int64_t mode, pre, next;
  const char* rows[3];
};

PromptCase ThreeOfFive(const Seen& seen) {
  return {.sequences = 1,
          .heads = 1,
          .kv_heads = 1,
          .v_dim = 5,
          .mask = seen.mode < 2 ? PromptMask::k2 : PromptMask::kSquare,
          .pre_tokens = seen.pre,
          .next_tokens = seen.next,
          .version = 2,
          .sparse_mode = seen.mode};
}

TEST(PromptMask, ModesByHand) {
  const Seen all[] = {
      {0, 1, 1, {"11000", "11100", "01110"}},
      {0, -1, 2, {"01100", "00110", "00011"}},
      {0, kFar, -2, {"00000", "00000", "10000"}},
      {1, 0, 0, {"11111", "11111", "11111"}},
      {2, 0, -7, {"10000", "11000", "11100"}},
      {3, 0, -7, {"11100", "11110", "11111"}},
      {4, 1, 1, {"01110", "00111", "00011"}},
      {4, 2, 0, {"11100", "01110", "00111"}},
      {4, -1, 1, {"00010", "00001", "00000"}},
  };
  for (const Seen& seen : all) {
    SCOPED_TRACE(seen.mode);
    PromptCall call(ThreeOfFive(seen));
    call.query->FillWith(0);
    if (seen.mode < 2) call.mask->FillWith(0);
    for (int64_t n = 0; n < 25; ++n) {
      call.value->SetNth(n, n / 5 == n % 5 ? 1 : 0);
    }
    ASSERT_TRUE(call.Run());
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        EXPECT_EQ(call.out->Get({0, 0, i, j}) > 0, seen.rows[i][j] == '1')
            << i << ", " << j;
      }
    }
  }
}

// Four rows of which two are valid, six keys of which three are.
TEST(PromptMask, CornersAreThoseOfValidLengths) {
  PromptCall call({.rows = 4,
                   .columns = 6,
                   .mask = PromptMask::kSquare,
                   .lengths = {2},
                   .version = 3,
                   .kv_lengths = {3},
                   .sparse_mode = 3});
  call.ExpectAsDocumented();
  EXPECT_NE(call.out->Get({0, 0, 1, 0}), 0);
  EXPECT_EQ(call.out->Get({0, 0, 2, 0}), 0);
}

// More queries than keys: the first ones see none.
TEST(PromptMask, CausalRowsBeforeTheFirstKeyAreZero) {
  PromptCall call(
      {.rows = 7, .mask = PromptMask::kSquare, .version = 2, .sparse_mode = 3});
  call.ExpectAsDocumented();
  EXPECT_EQ(call.out->Get({1, 3, 1, 0}), 0);
  EXPECT_NE(call.out->Get({1, 3, 2, 0}), 0);
}

TEST(PromptMask, CompressedMasksAreNotRead) {
  for (const int64_t mode : {2, 3, 4}) {
    PromptCall call(
        {.mask = PromptMask::kSquare, .version = 3, .sparse_mode = mode});
    call.mask->SetNth(0, 1);  // all there is of it
    call.ExpectAsDocumented();
  }
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{1, 2048, 2048}, {1, 1, 2048, 2048}}) {
    PromptCall call({.version = 3, .sparse_mode = 2});
    call.mask = call.caller.Input({.type = ACL_BOOL, .dims = dims});
    call.ExpectAsDocumented();
  }
}

TEST(PromptMask, BiasIsAddedAfterScalingFromTheThirdVersionOn) {
  for (const int version : {2, 3}) {
    for (const int64_t sequences : {1, 2}) {
      PromptCall call(
          {.more_columns = 3, .version = version, .pse_sequences = sequences});
      call.ExpectAsDocumented();
    }
  }
  PromptCall ignored({.version = 2});
  ignored.pse = ignored.caller.Input({.type = ACL_FLOAT, .dims = {7}});
  EXPECT_TRUE(ignored.Run());
}

TEST(PromptMask, AnyPrecisionThatIsNotNegative) {
  for (const int64_t precise : {0, 1, 2, 3, 4, 5}) {
    PromptCall call({.mask = PromptMask::k2,
                     .next_tokens = kFar,
                     .version = 3,
                     .inner_precise = precise});
    call.mask->FillWith(1);
    call.ExpectAsDocumented();
  }
  PromptCall call({.version = 3, .inner_precise = -1});
  call.ExpectFailure(kContradiction, "innerPrecise: -1");
}

// Makes the call, spoils it and expects the words.
template <typename Spoil>
void ExpectRefusal(const PromptCase& c, Spoil spoil, const char* words,
                   aclnnStatus status = kContradiction) {
  SCOPED_TRACE(words);
  PromptCall call(c);
  spoil(call);
  call.ExpectFailure(status, words);
}

TEST(PromptMask, ModesAreChecked) {
  const auto mode = [](int64_t to) {
    return [to](PromptCall& call) { call.sparse_mode = to; };
  };
  const PromptCase masked{.mask = PromptMask::k2, .version = 2};
  ExpectRefusal(masked, mode(-1), "sparseMode: -1");
  ExpectRefusal(masked, mode(5), "sparseMode: 5");
  for (const int64_t to : {2, 3, 4}) {
    ExpectRefusal(masked, mode(to), "attenMask: shape [3, 5]");
  }
  for (const int64_t to : {1, 2, 3, 4}) {
    ExpectRefusal({.version = 3}, mode(to), "attenMask: absent");
  }
  const PromptCase square{
      .mask = PromptMask::kSquare, .version = 3, .sparse_mode = 4};
  ExpectRefusal(
      square,
      [](PromptCall& call) {
        call.mask =
            call.caller.Input({.type = ACL_FLOAT16, .dims = {2048, 2048}});
      },
      "attenMask: data type FLOAT16");
  ExpectRefusal(
      square,
      [](PromptCall& call) {
        call.mask =
            call.caller.Input({.type = ACL_BOOL, .dims = {2, 1, 2048, 2048}});
      },
      "attenMask: shape [2, 1, 2048, 2048]");
}

TEST(PromptMask, BandsFromTheBottomRightAreChecked) {
  const auto tokens = [](int64_t pre, int64_t next) {
    return [=](PromptCall& call) {
      call.pre_tokens = pre;
      call.next_tokens = next;
    };
  };
  const PromptCase c{
      .mask = PromptMask::kSquare, .version = 2, .sparse_mode = 4};
  ExpectRefusal(c, tokens(-1, -1), "preTokens: -1 and nextTokens -1");
  ExpectRefusal(c, tokens(1, -2), "preTokens: 1 and nextTokens -2");
  ExpectRefusal(c, tokens(kFar, -5), "nextTokens: -5 leaves nothing of 5 keys");
  ExpectRefusal(c, tokens(-3, kFar), "preTokens: -3 leaves nothing of 3 rows");
  PromptCall fine(c);
  tokens(-2, kFar)(fine);
  fine.ExpectAsDocumented();
}

// Packed sequences may lose all that they have, but no more.
TEST(PromptMask, BandsMayLeaveNothingOfAPackedSequence) {
  PromptCase c{.layout = "TND",
               .rows = 6,
               .columns = 6,
               .mask = PromptMask::kSquare,
               .lengths = {2, 6},
               .version = 3,
               .kv_lengths = {2, 6},
               .sparse_mode = 4};
  c.pre_tokens = kFar;
  c.next_tokens = -2;
  PromptCall(c).ExpectAsDocumented();
  c.next_tokens = -3;
  ExpectRefusal(
      c, [](PromptCall&) {}, "nextTokens: -3 leaves nothing of 2 keys");
  c.pre_tokens = -2;
  c.next_tokens = kFar;
  PromptCall(c).ExpectAsDocumented();
  c.pre_tokens = -3;
  ExpectRefusal(
      c, [](PromptCall&) {}, "preTokens: -3 leaves nothing of 2 rows");
}

// A sequence without queries or without keys has no scores that a band could
// leave out.
TEST(PromptMask, BandsAskNothingOfEmptySequences) {
  for (const char* layout : {"TND", "NTD"}) {
    PromptCall({.layout = layout,
                .sequences = 4,
                .rows = 120,
                .columns = 120,
                .mask = PromptMask::kSquare,
                .pre_tokens = 10,
                .next_tokens = -10,
                .lengths = {0, 40, 80, 120},
                .version = 3,
                .kv_lengths = {0, 40, 80, 120},
                .sparse_mode = 4})
        .ExpectAsDocumented();
  }
  struct Tokens {
    int64_t pre, next;
  };
  for (const auto [pre, next] : {Tokens{2, -1}, Tokens{-1, 2}}) {
    for (const int64_t mode : {0, 4}) {
      PromptCase c{.sequences = 3,
                   .mask = mode == 0 ? PromptMask::k2 : PromptMask::kSquare,
                   .pre_tokens = pre,
                   .next_tokens = next,
                   .version = 2,
                   .sparse_mode = mode};
      c.lengths = {3, 0, 2};
      PromptCall(c).ExpectAsDocumented();
      c.version = 3;
      c.kv_lengths = {5, 4, 0};
      PromptCall(c).ExpectAsDocumented();
    }
  }
}

TEST(PromptMask, PackedSequencesHaveNoMoreQueriesThanKeys) {
  const PromptCase c{.layout = "TND",
                     .sequences = 3,
                     .rows = 6,
                     .columns = 6,
                     .mask = PromptMask::kSquare,
                     .pre_tokens = 2,
                     .lengths = {2, 2, 6},
                     .version = 3,
                     .kv_lengths = {2, 2, 6},
                     .sparse_mode = 3};
  PromptCall(c).ExpectAsDocumented();  // as many is fine
  PromptCase longer = c;
  longer.kv_lengths = {1, 2, 6};
  ExpectRefusal(
      longer, [](PromptCall&) {}, "sequence 0 has 2 queries");
  longer.sparse_mode = 4;  // with a sequence of nothing
  PromptCall(longer).ExpectAsDocumented();
}

TEST(PromptMask, BiasesAreChecked) {
  const auto pse = [](std::vector<int64_t> dims,
                      aclDataType type = ACL_FLOAT16) {
    return [=](PromptCall& call) {
      call.pse = call.caller.Input({.type = type, .dims = dims});
    };
  };
  const PromptCase c{.version = 3};
  ExpectRefusal(c, pse({2, 4, 3, 4}), "pseShift: shape");
  ExpectRefusal(c, pse({2, 4, 2, 5}), "pseShift: shape");
  ExpectRefusal(c, pse({2, 2, 3, 5}), "pseShift: shape");
  ExpectRefusal(c, pse({3, 4, 3, 5}), "pseShift: shape");
  ExpectRefusal(c, pse({4, 3, 5}), "pseShift: shape");
  ExpectRefusal(c, pse({}), "pseShift: shape []");
  ExpectRefusal(c, pse({2, 4, 3, 5}, ACL_BF16), "pseShift: data type",
                kInvalid);
}

}  // namespace
}  // namespace flashacl::testing
