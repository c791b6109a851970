// SPDX-License-Identifier: Apache-2.0
// Lengths of queries and keys of aclnnPromptFlashAttentionV2 and V3, padded and
// packed, and what of them is refused.
#include "ops/inference_lengths.h"

#include <gtest/gtest.h>

#include "tests/testing/arguments.h"
#include "tests/testing/prompt_call.h"

namespace flashacl::testing {
namespace {

using Lengths = std::vector<int64_t>;
using ops::ReadLengths;

constexpr aclnnStatus kContradiction = 561103;

TEST(ReadLengths, AreOnePerSequence) {
  EXPECT_EQ(*ReadLengths("lengths", nullptr, 3), Lengths());
  EXPECT_EQ(*ReadLengths("lengths", HostArray({}), 3), Lengths());
  EXPECT_EQ(*ReadLengths("lengths", HostArray({4}), 3), (Lengths{4, 4, 4}));
  EXPECT_EQ(*ReadLengths("lengths", HostArray({1, 2, 3}), 3),
            (Lengths{1, 2, 3}));
  EXPECT_EQ(*ReadLengths("lengths", HostArray({1, 2, 3, 9}), 3),
            (Lengths{1, 2, 3}));
  const Status few = ReadLengths("lengths", HostArray({1, 2}), 3).status();
  EXPECT_EQ(few.code(), Code::kContradiction);
  EXPECT_EQ(few.message(),
            "lengths: 2 numbers for 3 sequences, expected 1 or 3");
}

TEST(PromptLengths, LimitKeysToo) {
  for (const int version : {2, 3}) {
    PromptCall call(
        {.lengths = {1, 2}, .version = version, .kv_lengths = {2, 5}});
    call.ExpectAsDocumented();
    PromptCall broadcast({.version = version, .kv_lengths = {3}});
    broadcast.ExpectAsDocumented();
    PromptCall surplus({.version = version, .kv_lengths = {0, 3, 77}});
    surplus.ExpectAsDocumented();
    EXPECT_EQ(surplus.out->Get({0, 0, 0, 0}), 0);  // no keys
    EXPECT_NE(surplus.out->Get({1, 0, 0, 0}), 0);
  }
}

TEST(PromptLengths, OfPackedSequencesAreEnds) {
  for (const char* layout : {"TND", "NTD"}) {
    for (const bool spread : {false, true}) {
      PromptCall call({.type = ACL_BF16,
                       .layout = layout,
                       .sequences = 4,
                       .rows = 9,
                       .columns = 12,
                       .v_dim = 24,
                       .lengths = {3, 3, 7, 9},
                       .spread = spread,
                       .version = 3,
                       .kv_lengths = {5, 6, 6, 12}});
      call.ExpectAsDocumented();
    }
  }
}

TEST(PromptLengths, OfKeysAreIgnoredInSh) {
  PromptCall call({.layout = "SH",
                   .sequences = 2,
                   .rows = 6,
                   .columns = 6,
                   .lengths = {4, 2},
                   .version = 2});
  call.kv_lengths = call.caller.Array({1, 99, -3});
  call.ExpectAsDocumented();
}

void ExpectRefusal(const PromptCase& c, std::vector<int64_t> lengths,
                   std::vector<int64_t> kv_lengths, const char* words) {
  PromptCall call(c);
  call.lengths = call.caller.Array(lengths);
  call.kv_lengths = call.caller.Array(kv_lengths);
  call.ExpectFailure(kContradiction, words);
}

TEST(PromptLengths, OfKeysAreChecked) {
  const PromptCase c{.sequences = 3, .version = 2};
  ExpectRefusal(c, {}, {1, 1}, "actualSeqLengthsKv: 2 numbers");
  ExpectRefusal(c, {}, {1, 1, 6}, "actualSeqLengthsKv: 6 for sequence 2");
  ExpectRefusal(c, {}, {-1}, "actualSeqLengthsKv: -1 for sequence 0");
  ExpectRefusal(c, {4}, {5}, "actualSeqLengths: 4 for sequence 0");
}

TEST(PromptLengths, EndsAreChecked) {
  const PromptCase c{.layout = "TND",
                     .sequences = 2,
                     .rows = 6,
                     .columns = 8,
                     .lengths = {2, 6},
                     .version = 3,
                     .kv_lengths = {3, 8}};
  PromptCall(c).ExpectAsDocumented();
  ExpectRefusal(c, {}, {3, 8}, "actualSeqLengths: absent");
  ExpectRefusal(c, {2, 6}, {}, "actualSeqLengthsKv: absent");
  ExpectRefusal(c, {4, 2, 6}, {3, 5, 8}, "sequence 1 ends at 2");
  ExpectRefusal(c, {-1, 6}, {3, 8}, "sequence 0 ends at -1");
  ExpectRefusal(c, {2, 5}, {3, 8}, "actualSeqLengths: the last");
  ExpectRefusal(c, {2, 6}, {3, 7}, "actualSeqLengthsKv: the last");
  ExpectRefusal(c, {2, 6}, {3, 9}, "actualSeqLengthsKv: sequence 1 ends at 9");
  ExpectRefusal(c, {2, 6}, {8}, "actualSeqLengthsKv: 1 sequences");
}

TEST(PromptLengths, FirstVersionKnowsNoEnds) {
  PromptCall call({.layout = "TND", .sequences = 1, .lengths = {3}});
  call.ExpectFailure(kContradiction, "inputLayout: TND");
}

}  // namespace
}  // namespace flashacl::testing
