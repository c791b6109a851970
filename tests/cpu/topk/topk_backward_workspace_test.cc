// SPDX-License-Identifier: Apache-2.0
// How gradients over listed keys are cut, and that memory is bounded.
#include "cpu/topk/topk_backward_workspace.h"

#include <gtest/gtest.h>

#include <string>

#include "cpu/implementations.h"
#include "cpu/pair_dots.h"
#include "cpu/topk/index_lists.h"
#include "cpu/tuning.h"
#include "tests/cpu/topk/topk.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::TopKSpace;

int64_t BytesOf(const std::string& line) {
  return testing::PlanOn(kCpuTopKBackward, testing::ProblemOf(line), 2)
      .workspace.bytes();
}

// What the header of the row promises: sums, twice the saved pds, and a little.
TEST(TopKBackwardWorkspace, MemoryIsWhatIsPromised) {
  constexpr int64_t kMiB = 1 << 20;
  for (const char* heads : {"128/1", "64/1", "16/1"}) {
    const std::string start =
        Str("bwd bf16 h={} d=512+64/512 topk:2048 ", heads);
    const int64_t sums = int64_t{32768} * 1088 * 4;
    EXPECT_LT(BytesOf(start + "q=4096 k=32768"), sums + 130 * kMiB) << heads;
    EXPECT_EQ(BytesOf(start + "q=4096 k=32768"),
              BytesOf(start + "q=9000 k=32768"));
    // Many sequences are taken batch by batch.
    EXPECT_EQ(BytesOf(start + "q=16x4096 k=16x32768"),
              BytesOf(start + "q=4096 k=32768"));
  }
}

// Whether operands are pairs is a matter of all their tensors.
TEST(TopKBackwardDots, AreOfPairsAlone) {
  SetPairDotsForTest(PairDots::kMultiplyAdds);
  const auto dots_of = [](const char* line) {
    return TopKBackwardDots(testing::ProblemOf(line));
  };
  for (const char* line : {"bwd bf16 h=8/1 d=16+4/6 q=4 k=40 topk:8",
                           "bwd bf16 h=8/1 d=16+4/6 q=4 k=40 topk:8 shared",
                           "bwd bf16 h=8/1 d=16/6 q=4 k=40 topk:8"}) {
    EXPECT_EQ(dots_of(line), PairDots::kMultiplyAdds) << line;
  }
  for (const char* line : {"bwd f32 h=8/1 d=16 q=4 k=40 topk:8",
                           "bwd f16 h=8/1 d=16 q=4 k=40 topk:8",
                           "bwd bf16 h=8/1 d=15/6 q=4 k=40 topk:8",
                           "bwd bf16 h=8/1 d=16+3/6 q=4 k=40 topk:8",
                           "bwd bf16 h=8/1 d=16/5 q=4 k=40 topk:8",
                           "bwd bf16 h=8/1 d=16/5 q=4 k=40 topk:8 shared"}) {
    EXPECT_EQ(dots_of(line), PairDots::kNone) << line;
  }
  AttentionProblem apart =
      testing::ProblemOf("bwd bf16 h=8/1 d=16 q=4 k=40 topk:8");
  apart[Slot::kGradOut].strides.back() = 2;
  EXPECT_EQ(TopKBackwardDots(apart), PairDots::kNone);
  SetPairDotsForTest({});
}

TEST(TopKBackwardWorkspace, CutsHoldWhatTheyMust) {
  ForRandomProblems(
      500, TopKSpace(Direction::kBackward),
      [](const AttentionProblem& p, Random& random) {
        if (!p.kv.gathers()) return;
        const bool matrices = random.OneIn(2);
        const TopKBackwardTiling cut = TopKBackwardTilingOf(p, {}, matrices);
        EXPECT_EQ(cut.packs_words, matrices && p.group() > 16);
        EXPECT_EQ(cut.head_stride % (cut.packs_words ? 32 : 16), 0);
        int64_t longest = 0;
        for (const Sequence& sequence : p.lengths.sequences) {
          longest = std::max(longest, sequence.columns());
        }
        EXPECT_GE(cut.batch_rows, longest);
        EXPECT_GE(cut.split_keys * cut.num_splits, MaxListedKeys(p));
        EXPECT_LE(cut.split_keys, kMaxStageKeys);
        EXPECT_GE(cut.kv_blocks * cut.kv_block_rows, longest);
        EXPECT_GE(cut.padded_heads, p.group());
        EXPECT_GE(cut.head_stride, p.group());
        if (p.has(Slot::kGradKey)) {
          EXPECT_GE(cut.key_d_blocks * cut.d_block_channels,
                    p.qk_dim + p.rope_dim);
        }
        if (p.has(Slot::kGradValue)) {
          EXPECT_GE(cut.value_d_blocks * cut.d_block_channels, p.v_dim);
        }
      });
}

}  // namespace
}  // namespace flashacl::cpu
