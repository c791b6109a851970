// SPDX-License-Identifier: Apache-2.0
// Every implementation against the reference, on every instruction set that
// this processor has and the kernels are compiled for.
#include <gtest/gtest.h>

#include <vector>

#include "tests/cpu/runs.h"
#include "tests/cpu/spaces.h"

namespace flashacl {
namespace {

using testing::ExpectRight;
using testing::ForRandomProblems;
using testing::SeenOften;
using testing::Tried;

class Right : public testing::EachKernel {};

TEST_P(Right, OnRandomProblems) {
  for (const Tried& tried : testing::AllTried()) {
    if (tried.implementation != &implementation_ || tried.right == 0) continue;
    const bool tiles =
        &implementation_ == &kCpuForward || &implementation_ == &kCpuBackward;
    int64_t taken = 0;
    const auto check = [&](const AttentionProblem& p, Random& random) {
      if (!implementation_.supports(p, CpuBackend().device).ok()) {
        EXPECT_TRUE(!tiles || p.kv.gathers()) << "refused";
        return;
      }
      EXPECT_TRUE(ExpectRight(p, random.Bits(), implementation_.name));
      ++taken;
    };
    ForRandomProblems(tried.right, tried.space, check);
    EXPECT_TRUE(SeenOften(taken, tried.right / 15));
  }
}

// Shapes beyond those of random problems.
struct Shapes {
  const Implementation* implementation;
  const char* what;
  std::vector<const char*> lines;
  uint64_t seed = 3;
};

const Shapes kShapes[] = {
    {&kCpuForward,
     "channels beyond one slice of a score's sum, and what CANN takes",
     {"fwd f32 h=2/1 d=576/512 q=40 k=50 causal",
      "fwd bf16 h=4/1 d=512+64/512 q=9 k=200 shared",
      "fwd f16 h=1 d=768 q=33 k=65", "fwd f32 h=1 d=1025/3 q=5 k=7",
      "fwd f16 h=1 d=1/1000 q=20 k=31 mask",
      "fwd bf16 h=8/1 d=128 q=1 k=9000 window:4999:0 sink stats"}},
    {&kCpuForward,
     "scores without channels, which are 0 or their biases",
     {"fwd f32 h=2 d=0/4 q=20 k=50", "fwd f16 h=2/1 d=0/9 q=3 k=30 bias",
      "fwd bf16 h=1 d=0/5 q=40 k=40 causal stats sink",
      "fwd f32 h=1 d=4/0 q=3 k=5 stats", "fwd f32 h=1 d=0 q=3 k=5 stats",
      "fwd f32 h=1 d=0+3/4 q=3 k=5"}},
    {&kCpuForward,
     "8-bit queries, whose probs are rounded with the row's greatest score",
     {"fwd i8 h=4/2 d=64 q=100 k=330 int8:tensor causal",
      "fwd i8 h=2 d=16 q=3 k=2000 int8:tensor",
      "fwd i8 h=8/1 d=33/20 q=17,0,40 k=50,9,0 int8:tensor mask"},
     5},
    {&kCpuDecode,
     "channels of whole vectors, which go through registers in every type",
     {"fwd f16 h=8/2 d=128 q=3x1 k=100,5000,48", "fwd bf16 h=4 d=64 q=1 k=500",
      "fwd f32 h=6/3 d=80 q=2x3 k=60,300 causal stats",
      "fwd f16 h=7/1 d=256/64 q=1 k=200 mask",
      "fwd bf16 h=40/1 d=128 q=1 k=400",
      "fwd bf16 h=64/1 d=128 q=1 k=400 causal stats",
      "fwd bf16 h=64/8 d=64 q=8,7 k=100,900 causal sink",
      "fwd f16 h=18/2 d=64 q=7 k=300 causal int8:channel",
      "fwd f16 h=57/3 d=128 q=3 k=300 causal int8:channel probs:f16",
      "fwd bf16 h=58/2 d=64 q=2x1 k=300,77 probs:bf16",
      "fwd bf16 h=17/1 d=128 q=3 k=300 causal probs:bf16",
      "fwd f32 h=12/6 d=80 q=29 k=200 window:99:0",
      "fwd bf16 h=48/1 d=512+64/512 q=1 k=300 shared paged:16",
      "fwd f16 h=12/4 d=128 q=2x1 k=2x333 int8:channel+offset paged:16",
      "fwd bf16 h=32/8 d=64 q=16x1 k=16x70 int8:tensor list",
      "fwd bf16 h=16/1 d=512+64/512 q=1 k=300 shared paged:128",
      "fwd f16 h=4/1 d=128 q=10 k=900 window:99:0 sink bias",
      "fwd f16 h=9/3 d=32 q=5x1 k=5x100 counts:k"}},
    {&kCpuForward,
     "channels in blocks, and scales by row, of several steps",
     {"fwd bf16 h=4/2 d=128 q=90 k=330 paged:128 blocks:16 causal",
      "fwd f16 h=2/1 d=96+32/64 q=40 k=300 blocks:16",
      "fwd bf16 h=2/1 d=128 q=40 k=300 paged:16 blocks:32 int8:channel",
      "fwd f16 h=4/2 d=64 q=50 k=330 int8:row-head+offset",
      "fwd f16 h=4/2 d=64 q=50 k=330 paged:32 int8:page-row/channel",
      "fwd bf16 h=2/1 d=64+16 q=20,40 k=90,40 list"}},
    {&kCpuForward,
     "queries of bytes, whose rope is of another type",
     {"fwd bf16 h=16/1 d=512+64/512 q=4,9 k=300,70 paged:128 blocks:32 "
      "int8:tensor query:int8 causal lse",
      "fwd f16 h=4/2 d=64 q=50,3 k=330,4 int8:row-head+offset query:int8",
      "fwd f32 h=6/2 d=33+7/20 q=40 k=90 int8:channel query:int8 mask"}},
    {&kCpuForward,
     "a prefix that all sequences share",
     {"fwd bf16 h=4/2 d=128 q=90,20 k=330,1 prefix:300 causal",
      "fwd f16 h=2/1 d=64 q=40 k=0 prefix:150 stats sink",
      "fwd bf16 h=2/1 d=64/32 q=2x40 k=10,70 list prefix:99 int8:channel"}},
    {&kCpuDecode,
     "a prefix that all sequences share",
     {"fwd bf16 h=32/8 d=128 q=2x1 k=5000,48 prefix:1000",
      "fwd f16 h=8/2 d=128 q=3x2 k=100,0,48 prefix:77 list causal stats",
      "fwd bf16 h=4/2 d=64 q=3x2 k=100,0,48 prefix:30 counts:k",
      "fwd bf16 h=4/2 d=64 q=3x2 k=9,0,4 prefix:30 int8:channel+offset mask"}},
    {&kCpuDecode,
     "channels in blocks, in whole vectors and not",
     {"fwd bf16 h=32/8 d=128 q=2x1 k=5000,48 paged:128 blocks:16",
      "fwd f16 h=8/2 d=128 q=3x1 k=100,500,48 paged:16 blocks:16 causal",
      "fwd bf16 h=40/1 d=128 q=1 k=400 paged:128 blocks:16",
      "fwd bf16 h=16/1 d=512+64/512 q=1 k=300 shared paged:128 blocks:16",
      "fwd bf16 h=2/1 d=512+64/512 q=1 k=300 paged:128 blocks:16",
      "fwd bf16 h=4/1 d=128 q=2x1 k=2x333 int8:channel paged:128 blocks:32",
      "fwd f16 h=3/1 d=80/48 q=1 k=200 blocks:32",
      "fwd f32 h=4/2 d=64 q=2 k=200 blocks:8 window:99:0 sink"}},
    {&kCpuDecode,
     "scales and offsets by row, on raw bytes",
     {"fwd bf16 h=32/8 d=128 q=2x1 k=5000,48 int8:row",
      "fwd bf16 h=8/8 d=128 q=2x1 k=5000,48 int8:row-head+offset",
      "fwd f16 h=12/4 d=128 q=2x1 k=2x333 int8:row-head+offset paged:16",
      "fwd f16 h=12/4 d=128 q=2x1 k=2x333 int8:page-row-head paged:16",
      "fwd bf16 h=7/1 d=128 q=3 k=333 int8:channel+offset/row+offset causal",
      "fwd bf16 h=4/1 d=128 q=3 k=333 int8:row+offset shared keep:0.5",
      "fwd f16 h=3/1 d=33 q=1 k=200 int8:row+offset/channel bias",
      "fwd f16 h=6/2 d=64+16 q=1 k=200 int8:row-head+offset sink stats",
      "fwd bf16 h=8/2 d=128 q=2 k=700 int8:page-row paged:64 blocks:32",
      "fwd bf16 h=8/2 d=128 q=2x1 k=700,3 int8:row+offset list"}},
    {&kCpuForward,
     "words of four bits",
     {"fwd bf16 h=4/2 d=128 q=40 k=300 int4:channel+offset causal",
      "fwd f16 h=4/2 d=64/24 q=50 k=330 int4:row-head+offset paged:16",
      "fwd bf16 h=2/1 d=128 q=40 k=300 paged:16 blocks:64 int4:channel",
      "fwd f16 h=2 d=8/16 q=50 k=90 int4:row/channel",
      "fwd f16 h=2 d=8/16 q=50 k=90 int4:channel prefix:9",
      "fwd f16 h=4/1 d=40/20 q=30 k=100 shared int4:tensor sink"}},
    {&kCpuDecode,
     "words of four bits, in whole vectors and not",
     {"fwd bf16 h=32/8 d=128 q=2x1 k=5000,48 int4:channel+offset",
      "fwd bf16 h=32/8 d=128 q=2x1 k=5000,48 int4:row-head+offset paged:16",
      "fwd f16 h=6/2 d=64 q=2x1 k=2x333 int4:row paged:128 blocks:64",
      "fwd f16 h=3/3 d=64/96 q=1 k=700 int4:channel/row+offset sink",
      "fwd f16 h=4/2 d=24/40 q=2 k=200 int4:channel+offset causal",
      "fwd bf16 h=40/1 d=128 q=1 k=400 int4:channel+offset mask",
      "fwd bf16 h=16/2 d=64+32/64 q=1 k=300 int4:row+offset stats",
      "fwd f16 h=4/1 d=64/48 q=1 k=200 shared int4:channel",
      "fwd f16 h=7/1 d=32 q=2x1 k=50,300 list int4:row-head bias",
      "fwd f16 h=7/1 d=32 q=2x1 k=50,300 list int4:channel prefix:3",
      "fwd f32 h=2 d=128/16 q=3x1 k=40,0,7 int4:page-row paged:4"}},
    {&kCpuDecode,
     "queries of bytes, whose rope is of another type",
     {"fwd bf16 h=32/1 d=512+64/512 q=2x1 k=300,5000 paged:128 blocks:32 "
      "int8:tensor query:int8 lse",
      "fwd bf16 h=16/1 d=512+64/512 q=2x2 k=300,70 paged:128 int8:tensor "
      "query:int8 causal",
      "fwd f16 h=8/2 d=128 q=3x1 k=100,5000,48 int8:channel query:int8",
      "fwd f16 h=8/2 d=64 q=3x1 k=100,5,48 int8:row-head+offset query:int8",
      "fwd f32 h=6/2 d=33+7/20 q=3 k=90 int8:channel+offset query:int8 mask"}},
    {&kCpuDecode,
     "scores without channels",
     {"fwd f32 h=2 d=0/4 q=1 k=50", "fwd f16 h=2/1 d=0/16 q=3 k=130 bias",
      "fwd f32 h=1 d=4/0 q=3 k=5 stats", "fwd f32 h=1 d=0+8/8 q=3 k=5"}},
    {&kCpuMixed,
     "prompts and single tokens",
     {"fwd bf16 h=32/8 d=128 q=100,3x1 k=300,5000,48,1 paged:128 causal",
      "fwd f16 h=8/2 d=64 q=11,7,6 k=1100,1700,30 causal stats sink",
      "fwd bf16 h=4/2 d=128 q=90,2,1 k=330,48,0 prefix:300 causal lse",
      "fwd bf16 h=4/2 d=128 q=90,2,1 k=330,48,9 paged:128 blocks:16",
      "fwd f16 h=3/1 d=64+32/64 q=2x70 k=2x330 counts:qk mask",
      "fwd bf16 h=8/2 d=128 q=70,2 k=700,300 int8:row+offset"}},
    {&kCpuBackward,
     "sums that several tiles add to, for more kv heads than go at once",
     {"bwd f32 h=12/6 d=16 q=700 k=300",
      "bwd bf16 h=7 d=24/16 q=300,600,9 k=400,500,90 causal sink",
      "bwd f16 h=4/1 d=8 q=500 k=500 window:100:3 bias keep:0.5",
      "bwd f32 h=2 d=8 q=900 k=30 mask"}},
    // backward_workspace_test.cc has the bound.
    {&kCpuBackward,
     "keys that are swept twice, as sums would be much larger than queries",
     {"bwd bf16 h=2/1 d=1+1 q=65 k=44500 window:40000:9 sink"}},
    {&kCpuBackward,
     "channels beyond one slice of a score's sum",
     {"bwd f32 h=2/1 d=576/512 q=40 k=50 causal",
      "bwd bf16 h=4/1 d=192/128 q=150 k=200", "bwd f16 h=1 d=768 q=33 k=65",
      "bwd f32 h=1 d=1025/3 q=5 k=7", "bwd f16 h=1 d=1/1000 q=20 k=31 mask",
      "bwd bf16 h=2 d=128+64/128 q=90 k=200 causal"}},
    {&kCpuBackward,
     "tiles of several blocks of rows, and panels that end within four "
     "channels",
     {"bwd f32 h=64 d=6 q=256 k=200", "bwd f16 h=64 d=8/5 q=256 k=200 causal",
      "bwd bf16 h=64 d=2 q=256 k=200",
      "bwd f32 h=128/64 d=3+4/1 q=130 k=100 window:120:9"}},
    {&kCpuBackward,
     "gradients of slopes, from keys of several steps",
     {"bwd f32 h=2 d=8 q=9 k=400 alibi",
      "bwd f16 h=4/2 d=16 q=70,3 k=300,210 "
      "alibi:sqrt start:5:-3",
      "bwd f32 h=1 d=8 q=200 k=200 causal alibi:bh"}},
    {&kCpuBackward,
     "scores without channels",
     {"bwd f32 h=2 d=0/4 q=20 k=50", "bwd f16 h=2/1 d=0/9 q=3 k=30 bias",
      "bwd bf16 h=1 d=0/5 q=40 k=40 causal sink", "bwd f32 h=1 d=4/0 q=3 k=5",
      "bwd f32 h=1 d=0 q=3 k=5", "bwd f32 h=1 d=0+3/4 q=3 k=5"}},
    {&kCpuTopKDecode,
     "few heads of any shape, and as many as there may be",
     {"fwd bf16 h=16/1 d=512+64/512 q=3,4 k=70,300 topk:150 shared causal "
      "stats",
      "fwd f16 h=64/1 d=512+64/512 q=2 k=300 topk:200 causal stats",
      "fwd bf16 h=8/1 d=512+64/512 q=1 k=900 topk:13:64 shared sink stats",
      "fwd bf16 h=16/1 d=512+64/512 q=2x1 k=2x300 paged:16 topk:100 shared",
      "fwd f16 h=3/1 d=700+100/650 q=3 k=90 topk:40:8",
      "fwd f32 h=2/1 d=0/5 q=3 k=9 topk:4 stats",
      "fwd f32 h=2/1 d=5/0 q=3 k=9 topk:4 stats",
      "fwd bf16 h=16/1 d=512+64/512 q=1 k=5000 topk:5000 shared stats",
      "fwd f32 h=2 d=8 q=3 k=9 topk:0 sink stats",
      "fwd bf16 h=6/2 d=96+32/80 q=5 k=400 topk:300 causal stats",
      "fwd bf16 h=16/1 d=512+64/512 q=3 k=90 topk:40 int8:tensor query:int8"}},
    {&kCpuTopKForward,
     "the shapes of DeepSeek-V3.2, and channels beyond",
     {"fwd bf16 h=128/1 d=512+64/512 q=2 k=300 topk:200 shared causal stats",
      "fwd f16 h=16/1 d=512+64/512 q=3,4 k=70,300 topk:150 causal stats",
      "fwd bf16 h=64/1 d=512+64/512 q=1 k=900 topk:13:64 shared sink stats",
      "fwd bf16 h=128/1 d=512+64/512 q=2x1 k=2x300 paged:16 topk:100 shared",
      "fwd f16 h=3/1 d=700+100/650 q=3 k=90 topk:40:8",
      "fwd f32 h=300/1 d=576/512 q=1 k=64 topk:64 stats",
      "fwd f32 h=2/1 d=0/5 q=3 k=9 topk:4 stats",
      "fwd f32 h=2/1 d=5/0 q=3 k=9 topk:4 stats",
      "fwd bf16 h=16/1 d=512+64/512 q=1 k=5000 topk:5000 shared stats",
      "fwd f32 h=2 d=8 q=3 k=9 topk:0 sink stats",
      "fwd bf16 h=16/1 d=512+64/512 q=3 k=90 topk:40 int8:tensor query:int8"}},
    {&kCpuTopKBackward,
     "the same, lists of several stages, indices beyond the last column",
     {"bwd bf16 h=128/1 d=512+64/512 q=2 k=90 topk:70 shared causal",
      "bwd f16 h=16/1 d=512+64/512 q=3,4 k=70,300 topk:150 causal",
      "bwd bf16 h=64/1 d=512+64/512 q=2 k=500 topk:7:64",
      "bwd f16 h=3/1 d=700+100/650 q=3 k=90 topk:40:8",
      "bwd f32 h=300/1 d=576/512 q=1 k=64 topk:64",
      "bwd f32 h=2/1 d=0/5 q=3 k=9 topk:4",
      "bwd f32 h=2/1 d=5/0 q=3 k=9 topk:4",
      "bwd f32 h=2/1 d=16 q=9 k=5000 topk:5000 shared causal",
      "bwd f32 h=6/2 d=16 q=3 k=20 topk:2:1000",
      "bwd f32 h=2 d=8 q=3 k=9 topk:0"}},
};

TEST_P(Right, OnShapes) {
  for (const Shapes& shapes : kShapes) {
    if (shapes.implementation != &implementation_) continue;
    SCOPED_TRACE(shapes.what);
    for (const char* line : shapes.lines) {
      ExpectRight(line, implementation_.name, shapes.seed);
    }
  }
}

// A scale of 0 is a scale: every prob becomes 0, and so does the output.
TEST_P(Right, RoundsProbsWithAScaleOfZero) {
  if (&implementation_ != &kCpuForward) return;
  SmallCase small(testing::ProblemOf("fwd i8 h=2 d=16 q=5 k=40 int8:tensor"));
  Random random(1);
  small.FillInputs(random);
  for (int64_t n = 0; n < small.count(Slot::kWeightScale); ++n) {
    small.Put(Slot::kWeightScale, n, 0);
  }
  testing::RunOn(implementation_, small);
  for (const double x : small.Get(Slot::kOut)) ASSERT_EQ(x, 0);
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Right, testing::EveryKernel(),
                         testing::SettingTestName);

}  // namespace
}  // namespace flashacl
