// SPDX-License-Identifier: Apache-2.0
// How gradients over listed keys are cut, and that memory is bounded.
#include "cpu/topk/topk_backward_workspace.h"

#include <gtest/gtest.h>

#include <string>

#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_backward.h"
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
    // Many sequences take turns.
    EXPECT_EQ(BytesOf(start + "q=16x4096 k=16x32768"),
              BytesOf(start + "q=4096 k=32768"));
  }
}

TEST(TopKBackwardWorkspace, CutsHoldWhatTheyMust) {
  ForRandomProblems(
      500, TopKSpace(Direction::kBackward),
      [](const AttentionProblem& p, Random&) {
        if (!p.kv.gathers()) return;
        const TopKBackwardTiling cut = TopKBackwardTilingOf(p, {});
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

TEST(TopKBackwardWorkspace, WhoWorksShareNothing) {
  const AttentionProblem p =
      testing::ProblemOf("bwd f32 h=6/2 d=20+4/16 q=9 k=50 topk:20");
  const TopKBackwardTiling cut = TopKBackwardTilingOf(p, {});
  WorkspaceLayout layout;
  const TopKBackwardWorkspace workspace =
      ReserveTopKBackward(p, cut, 3, layout);
  std::vector<std::byte> memory(static_cast<size_t>(layout.bytes()));
  const TopKBackwardScratch a = workspace.scratch.At(memory.data(), 1);
  const TopKBackwardScratch b = workspace.scratch.At(memory.data(), 2);
  const ScoreScratch a_score = workspace.score.At(memory.data(), 1);
  const ScoreScratch b_score = workspace.score.At(memory.data(), 2);
  EXPECT_LE(a_score.query + cut.padded_heads * 24, b_score.query);
  EXPECT_LE(a.grad_out + cut.padded_heads * 16, b.grad_out);
  EXPECT_LE(a.delta + cut.padded_heads, b.max);
  EXPECT_LE(a_score.keys + cut.step_keys * a_score.key_stride, b_score.keys);
  EXPECT_LE(a.values + cut.step_keys * a.value_stride, b.values);
  EXPECT_LE(a_score.query_rows + 3, b_score.query_rows);
  EXPECT_LE(a.grad_rows + 3, b.grad_rows);
  const SavedPds c = workspace.saved.At(memory.data(), 0);
  const SavedPds d = workspace.saved.At(memory.data(), 1);
  EXPECT_LE(c.columns + cut.split_keys, d.columns);
  EXPECT_LE(c.probs + cut.split_keys * cut.head_stride, d.probs);
  EXPECT_LE(c.grad_scores + cut.split_keys * cut.head_stride, d.grad_scores);
  EXPECT_LE(c.query + 3 * 32, d.query);
  EXPECT_LE(c.grad_out + 3 * 32, d.grad_out);
  EXPECT_LE(
      workspace.Sums(memory.data(), 0) + cut.batch_rows * cut.d_block_channels,
      workspace.Sums(memory.data(), 1));
  EXPECT_LE(c.kv_block_ends + cut.kv_blocks, d.kv_block_ends);
}

}  // namespace
}  // namespace flashacl::cpu
