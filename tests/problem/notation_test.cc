// SPDX-License-Identifier: Apache-2.0
// A line and its problem are the same thing said twice.
#include "problem/notation.h"

#include <gtest/gtest.h>

#include <string>

#include "problem/problem_spec.h"
#include "tests/testing/generator.h"

namespace flashacl {
namespace {

TEST(Notation, ParsingWhatWasWrittenIsTheCanonicalProblem) {
  testing::ForRandomProblems(
      20000, {}, [](const AttentionProblem& problem, Random&) {
        const std::string line = ToString(problem);
        const Result<AttentionProblem> parsed = Parse(line);
        ASSERT_TRUE(parsed.ok()) << parsed.status().message();
        EXPECT_TRUE(*parsed == Build(SpecOf(problem)));
        EXPECT_EQ(ToString(*parsed), line);
      });
}

// Each of these is canonical: parsed and written again it is itself.
constexpr const char* kCanonical[] = {
    "fwd bf16 h=32/8 d=128 q=64x1 k=64x4096 paged:128 int8:channel causal",
    "bwd bf16 h=128/1 d=512+64 q=4096 k=4096 topk:2048 shared",
    "fwd f32 h=1 d=64 q=8 k=12 band:-4:0:2",
    "fwd f16 h=4 d=71/33 q=3,0,5 k=2x5,7 causal-left:3 stats",
    "fwd f32 h=2 d=8 q=2x4 k=2x4 window:3:* mask:bhij",
    "fwd f32 h=2 d=8 q=2x4 k=2x4 full,window:-1:4:7 bias:before:hj",
    "fwd f32 h=2 d=8 q=2x4 k=2x4 2xcausal bias:hij:diagonal:3",
    "fwd f32 h=2 d=8 q=2x4 k=2x4 alibi:sqrt:bh start:-2:3:first sink",
    "fwd f32 h=2 d=8 q=4 k=4 alibi:1 keep:0.5 scale:0.1",
    "fwd f32 h=2 d=8 q=4 k=4 keep:1",
    "fwd f16 h=2 d=8 q=4 k=4 list int8:tensor+offset out:int8:channel+offset",
    "fwd f16 h=2 d=8 q=4 k=4 paged:2 topk:3:2 shared",
    "fwd f16 h=2 d=8 q=4 k=4 list topk:3",
    "fwd f16 h=2 d=8 q=4 k=4 out:f32 padding",
    "fwd i8 h=2 d=8 q=4 k=4 int8:tensor causal bias",
    "fwd i8 h=2 d=8 q=4 k=4 int8:channel+offset out:bf16",
    "fwd i8 h=2 d=8 q=4 k=4 int8:tensor out:int8:tensor",
    "fwd f16 h=2 d=8 q=2x4 k=2x4 counts:k",
    "fwd f16 h=2 d=8 q=2x4 k=4,9 paged:4 topk:3 counts:k ends:q",
    "fwd f16 h=2 d=8 q=3,4 k=2x4 counts:q ends:k",
    "bwd f16 h=2 d=8 q=2x4 k=2x4 topk:3:16 bias sink ends:qk grad:qb",
    "bwd f16 h=2 d=8 q=4 k=4 grad:none",
    "fwd f16 h=2 d=8 q=3,4 k=5,9 mask:tail padding:q stats lse",
    "fwd f16 h=2 d=8 q=3,4 k=5,9 mask:tail:bij padding:qk lse",
    "fwd f32 h=1 d=8 q=0x0 k=0x0",
    "fwd bf16 h=2 d=8 q=4 k=4 int8:tensor causal scale:0.1 probs:bf16 lse",
    "bwd bf16 h=2 d=8 q=4 k=4 probs:bf16",
    "fwd f16 h=2 d=8 q=4 k=4 int8:channel probs:f16",
    "fwd bf16 h=8/2 d=128 q=2x1 k=2x300 paged:128 blocks:16",
    "fwd bf16 h=8/2 d=128+64 q=2x1 k=2x300 blocks:16 causal",
    "fwd f16 h=4/2 d=8 q=2x1 k=2x30 int8:row+offset",
    "fwd f16 h=4/2 d=8 q=2x1 k=2x30 list int8:channel/row-head",
    "fwd f16 h=4/2 d=8 q=2x1 k=2x30 paged:8 int8:page-row-head blocks:32",
    "fwd f16 h=4/2 d=8 q=2x1 k=2x30 paged:8 int8:page-row+offset/tensor",
    "fwd f16 h=4/2 d=8 q=2x1 k=2x30 list int4:channel/row-head",
    "fwd f16 h=4/2 d=64 q=2x1 k=2x30 paged:8 int4:row+offset blocks:64",
    "fwd f16 h=4/2 d=8/3 q=2x1 k=5,30 prefix:12 shared int4:tensor",
    "fwd f16 h=4/2 d=8+4 q=2x1 k=5,30 list",
    "fwd bf16 h=8/1 d=32+8 q=2x1 k=5,30 paged:8 int8:tensor query:int8",
    "fwd f16 h=8/1 d=32 q=2 k=30 int8:channel/row query:int8 out:int8:tensor",
    "fwd f16 h=4/2 d=8 q=2x1 k=5,30 prefix:12 list mask",
    "fwd f16 h=4/2 d=8 q=2x1 k=5,30 prefix:12 shared int8:channel blocks:4",
};

TEST(Notation, CanonicalLinesStayAsTheyAre) {
  for (const std::string line : kCanonical) {
    SCOPED_TRACE(line);
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    EXPECT_EQ(ToString(*problem), line);
  }
}

TEST(Notation, LeavesOutDefaults) {
  const auto canonical = [](const char* line) {
    const Result<AttentionProblem> problem = Parse(line);
    return problem.ok() ? ToString(*problem) : problem.status().message();
  };
  EXPECT_EQ(canonical("  fwd\tf32  k=1x7 h=4/4 d=16+0001/16 q=0x3,7 "),
            "fwd f32 h=4 d=16+1 q=7 k=7");
  EXPECT_EQ(canonical("fwd f32 h=2 d=16 q=7 k=7 scale:0.25 out:f32 mask:ij"),
            "fwd f32 h=2 d=16 q=7 k=7 mask");
  EXPECT_EQ(canonical("fwd f32 h=2 d=4 q=7 k=7 bias:hij topk:4:1"),
            "fwd f32 h=2 d=4 q=7 k=7 topk:4 bias");
  EXPECT_EQ(canonical("bwd f32 h=2 d=4 q=7 k=7 stats grad:vkq"),
            "bwd f32 h=2 d=4 q=7 k=7");
  EXPECT_EQ(canonical("fwd i8 h=1 d=4 q=7 k=7 out:f16 int8:tensor"),
            "fwd i8 h=1 d=4 q=7 k=7 int8:tensor");
  EXPECT_EQ(canonical("fwd f16 h=2/1 d=4 q=7 k=7 int8:row-head/row"),
            "fwd f16 h=2/1 d=4 q=7 k=7 int8:row");
  // The query's dtype is said: what stands first is that of the rest.
  EXPECT_EQ(canonical("fwd f16 h=1 d=4 q=7 k=7 query:int8 int8:row out:f32"),
            "fwd f32 h=1 d=4 q=7 k=7 int8:row query:int8");
  EXPECT_EQ(canonical("fwd f32 h=1 d=4 q=7 k=7 band:*:0 "),
            "fwd f32 h=1 d=4 q=7 k=7 causal-left");
  EXPECT_EQ(canonical("fwd f32 h=1 d=4 q=7 k=7 window:*:0:2"),
            "fwd f32 h=1 d=4 q=7 k=7 causal:2");
  EXPECT_EQ(canonical("fwd f32 h=1 d=4 q=3,9 k=7,7 ends:q"),
            "fwd f32 h=1 d=4 q=2x9 k=2x7 ends:q");
}

TEST(Notation, SaysWhatTheWordsMean) {
  const Result<AttentionProblem> problem = Parse(
      "bwd f16 h=6/2 d=8+4/5 q=2,3 k=4,5 causal,window:1:2 bias:before sink");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  EXPECT_EQ(problem->direction, Direction::kBackward);
  EXPECT_EQ(problem->group(), 3);
  EXPECT_EQ(problem->rope_dim, 4);
  EXPECT_EQ(problem->v_dim, 5);
  EXPECT_EQ((*problem)[Slot::kQuery].dtype, DType::kF16);
  EXPECT_EQ(problem->mask.rules[1], Window(1, 2));
  EXPECT_EQ(problem->score.bias, Score::Bias::kBeforeScale);
  EXPECT_TRUE(problem->has(Slot::kGradSink));
  EXPECT_TRUE(problem->has(Slot::kGradKeyRope));
  EXPECT_FALSE(problem->has(Slot::kGradBias));
  EXPECT_EQ(problem->lengths.sequences[1].keys, (Range{4, 9}));
}

}  // namespace
}  // namespace flashacl
