// SPDX-License-Identifier: Apache-2.0
// Lines that name no problem say where, and what could stand there.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "problem/notation.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"

namespace flashacl {
namespace {

struct Wrong {
  const char* line;
  const char* message;  // begins like this
};

constexpr Wrong kWrong[] = {
    {"", "empty line: expected fwd or bwd"},
    {"   ", "empty line: expected fwd or bwd"},
    {"foward f32", "'foward' at character 1: expected fwd or bwd"},
    {"fwd", "line ends: expected f32, f16, bf16 or i8"},
    {"fwd  u8 h=1", "'u8' at character 6: expected f32, f16, bf16 or"},
    {"fwd f32 h=1 d=1 q=1", "line ends: expected k="},
    {"fwd f32 h=0 d=1 q=1 k=1",
     "'h=0' at character 9: expected h=HEADS[/KV_HEADS]"},
    {"fwd f32 h=1/2/3 d=1 q=1 k=1", "'h=1/2/3' at character 9: expected h="},
    {"fwd f32 h:1 d=1 q=1 k=1", "'h:1' at character 9: expected h="},
    {"fwd f32 h d=1 q=1 k=1", "'h' at character 9: expected h="},
    {"fwd f32 h=1 d=1+0 q=1 k=1", "'d=1+0' at character 13: expected d=QK"},
    {"fwd f32 h=1 d= q=1 k=1", "'d=' at character 13: expected d=QK"},
    {"fwd f32 h=1 d=1 q=1, k=1", "'q=1,' at character 17: expected q=N"},
    {"fwd f32 h=1 d=1 q=-1 k=1", "'q=-1' at character 17: expected q=N"},
    {"fwd f32 h=1 d=1 q=2xx1 k=1", "'q=2xx1' at character 17: expected q=N"},
    {"fwd f32 h=1 d=1 q=9999999999x1 k=1", "'q=9999999999x1' at character 17"},
    {"fwd f32 h=1 d=1 q=1 k=99999999999999999999", "'k=99999999999999999999'"},
    {"fwd f32 h=1 d=1 q=1 k=1 h=1", "'h=1' at character 25: h is given twice"},
    {"fwd f32 h=1 d=1 q=1 k=1 list paged:1",
     "'paged:1' at character 30: where keys are is given twice"},
    {"fwd f32 h=1 d=1 q=1 k=1 causal full",
     "'full' at character 32: mask rules is given twice"},
    {"fwd f32 h=1 d=1 q=1 k=1 paged:0",
     "'paged:0' at character 25: expected paged:ROWS"},
    {"fwd f32 h=1 d=1 q=1 k=1 paged", "'paged' at character 25: expected"},
    {"fwd f32 h=1 d=1 q=1 k=1 list:3", "'list:3' at character 25: expected"},
    {"fwd f32 h=1 d=1 q=1 k=1 sink:", "'sink:' at character 25: expected sink"},
    {"fwd f32 h=1 d=1 q=1 k=1 mask:ji", "'mask:ji' at character 25: expected"},
    {"fwd f32 h=1 d=1 q=1 k=1 mask:hi", "'mask:hi' at character 25: expected"},
    {"fwd f32 h=1 d=1 q=1 k=1 int8:token", "'int8:token' at character 25"},
    {"fwd f32 h=1 d=1 q=1 k=1 int8:tensor+", "'int8:tensor+' at character 25"},
    {"fwd f32 h=1 d=8 q=1 k=1 int4:token", "'int4:token' at character 25"},
    {"fwd f32 h=1 d=8 q=1 k=1 int4", "'int4' at character 25: expected int4:"},
    {"fwd f32 h=1 d=8 q=1 k=1 int4:row int8:row",
     "'int8:row' at character 34: int8 is given twice"},
    {"fwd f32 h=1 d=12 q=1 k=1 int4:row",
     "key: 2 words of 8 channels, expected 12 channels"},
    {"fwd f32 h=1 d=8/4 q=1 k=1 int4:row",
     "value: 1 words of 8 channels, expected 4 channels"},
    {"fwd f32 h=1 d=16 q=1 k=1 int4:row blocks:12",
     "blocks: 12 channels, expected whole words of 8 with int4"},
    {"fwd i8 h=1 d=8 q=1 k=1 int4:tensor", "key: dtype i4x8, expected i8 as"},
    {"bwd f32 h=1 d=8 q=1 k=1 int4:tensor", "key: dtype i4x8 has no gradient"},
    {"fwd f32 h=1 d=1 q=1 k=1 out:int4:tensor", "'out:int4:tensor' at"},
    {"fwd f32 h=1 d=1 q=1 k=1 out:i32", "'out:i32' at character 25: expected"},
    {"fwd f32 h=1 d=1 q=1 k=1 query:f16",
     "'query:f16' at character 25: expected query:int8"},
    {"fwd i8 h=1 d=1 q=1 k=1 int8:row query:int8", "query:int8: given in a"},
    {"fwd f16 h=1 d=1 q=1 k=1 query:int8",
     "key: dtype f16, expected i8 as the query"},
    {"fwd f32 h=1 d=1 q=1 k=1 keep:0", "'keep:0' at character 25: expected"},
    {"fwd f32 h=1 d=1 q=1 k=1 scale:nan", "'scale:nan' at character 25"},
    {"fwd f32 h=1 d=1 q=1 k=1 probs:f32",
     "'probs:f32' at character 25: expected probs:bf16 or probs:f16"},
    {"fwd f16 h=1 d=1 q=1 k=1 int8:tensor probs:bf16",
     "'probs:bf16' at character 37: expected probs:bf16 or probs:f16"},
    {"fwd bf16 h=1 d=1 q=1 k=1 probs:f16", "'probs:f16' at character 26"},
    {"fwd f16 h=1 d=1 q=1 k=1 probs:f16",
     "probs: of 16 bits beside a query of"},
    {"fwd f32 h=1 d=1 q=1 k=1 grad:q", "'grad:q' at character 25: expected"},
    {"bwd f32 h=1 d=1 q=1 k=1 grad:x", "'grad:x' at character 25: expected"},
    {"fwd f32 h=1 d=1 q=1 k=1 counts:kq", "'counts:kq' at character 25"},
    {"fwd f32 h=1 d=1 q=1 k=1 counts:k ends:qk",
     "'ends:qk' at character 34: expected ends:q, ends:k or ends:qk, of sides"},
    {"fwd f32 h=1 d=1 q=1 k=1 counts:k counts:q",
     "'counts:q' at character 34: counts is given twice"},
    {"fwd f32 h=1 d=1 q=1 k=1 paged:1 ends:k", "key lengths: ends of keys"},
    {"fwd f32 h=1 d=1 q=1 k=1 band:1",
     "'band:1' at character 25: expected full"},
    {"fwd f32 h=1 d=1 q=1 k=1 causal:-1", "'causal:-1' at character 25"},
    {"fwd f32 h=1 d=1 q=1 k=1 full:1", "'full:1' at character 25"},
    {"fwd f32 h=1 d=1 q=1 k=1 2xfoo", "'2xfoo' at character 25: expected full"},
    {"fwd f32 h=1 d=1 q=1 k=1 cap:1",
     "'cap:1' at character 25: expected h, d, q, k, prefix, paged"},
    {"fwd f32 h=1 d=1 q=1,2 k=1", "lengths: q names 2 sequences, k names 1"},
    {"fwd f32 h=1 d=1 q=1,2 k=1,2 3xcausal", "mask: 3 rules for 2 sequences"},
    {"fwd f32 h=1 d=1 q=1 k=1 start:1:1", "start: given without alibi"},
    {"fwd i8 h=1 d=1 q=1 k=1", "key scale: missing"},
    {"fwd i8 h=1 d=1 q=1 k=1 int8:tensor out:i8", "'out:i8' at character"},
    {"bwd i8 h=1 d=1 q=1 k=1 int8:tensor", "key: dtype i8 has no gradient"},
    {"fwd f32 h=3/2 d=1 q=1 k=1", "heads: 3 query heads cannot share 2"},
    {"fwd f32 h=1 d=1/2 q=1 k=1 shared", "value is key: 2 channels of value"},
    {"bwd f32 h=1 d=1 q=1 k=1 paged:2", "keys: backward takes rows"},
    {"fwd f32 h=1 d=1 q=1 k=1 prefix:0", "'prefix:0' at character 25"},
    {"fwd f32 h=1 d=1 q=1 k=1 prefix:2 paged:2", "key prefix: given, but keys"},
    {"bwd f32 h=1 d=1 q=1 k=1 prefix:2", "key prefix: given, but the direct"},
    {"fwd f32 h=1 d=1+1 q=1 k=1 prefix:2", "key rope: given, but sequences"},
    {"fwd f32 h=1 d=1 q=1 k=1 prefix:2 int8:row", "key row scale: given, but"},
    {"fwd f32 h=1 d=1 q=1 k=1 blocks:0", "'blocks:0' at character 25"},
    {"fwd f32 h=1 d=1 q=1 k=1 list blocks:2", "key: channels in blocks"},
    {"bwd f32 h=1 d=1 q=1 k=1 blocks:2", "key: channels in blocks"},
    {"fwd f32 h=1 d=1 q=1 k=1 out:int8:row", "'out:int8:row' at character 25"},
    {"fwd f32 h=1 d=1 q=1 k=1 int8:row/page-row", "'int8:row/page-row' at"},
    {"fwd f32 h=1 d=1 q=1 k=1 int8:tensor/row/row", "'int8:tensor/row/row' at"},
    {"fwd f32 h=1 d=1 q=1 k=1 int8:page-row", "row scales: in pages, but keys"},
    {"fwd i8 h=1 d=1 q=1 k=1 int8:row", "key row scale: given, but the query"},
    {"fwd f32 h=1048576 d=1048576 q=1099511627775 k=1",
     "query: extents and strides span"},
};

TEST(Parse, SaysWhereAndWhatIsExpected) {
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(wrong.line);
    const Result<AttentionProblem> problem = Parse(wrong.line);
    ASSERT_FALSE(problem.ok());
    const std::string_view begin(wrong.message);
    EXPECT_EQ(problem.status().message().substr(0, begin.size()), begin);
  }
}

// Whatever the bytes, there is a problem or a message.
TEST(Parse, TakesAnyBytes) {
  constexpr std::string_view kPieces[] = {
      "fwd ", "bwd ",  "f32 ", "bf16 ",  "h=",    "d=",   "q=",     "k=",
      "1",    "2",     "0",    "x",      ",",     ":",    "/",      "+",
      "*",    "-",     " ",    "causal", "band:", "list", "paged:", "topk:",
      "mask", "bias:", "b",    "h",      "i",     "j",    "\xFF",   "alibi"};
  constexpr auto kLast = static_cast<int64_t>(std::size(kPieces)) - 1;
  Random random(7);
  int64_t good = 0;
  const int64_t rounds = testing::ShareOf(200000);
  for (int64_t round = 0; round < rounds; ++round) {
    std::string line = "fwd f32 h=1 d=1 q=1 k=1 ";
    for (int64_t n = random.Within(0, 6); n > 0; --n) {
      line += kPieces[random.Within(0, kLast)];
    }
    const Result<AttentionProblem> problem = Parse(line);
    if (!problem.ok()) {
      ASSERT_FALSE(problem.status().message().empty()) << line;
      continue;
    }
    ++good;
    const Result<AttentionProblem> again = Parse(ToString(*problem));
    ASSERT_TRUE(again.ok()) << line;
    ASSERT_TRUE(*again == *problem) << line;
  }
  EXPECT_TRUE(testing::SeenOften(good, 1000));
}

}  // namespace
}  // namespace flashacl
