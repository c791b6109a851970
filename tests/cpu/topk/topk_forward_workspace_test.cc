// SPDX-License-Identifier: Apache-2.0
// Scratch memory over listed keys: as large as a list, whatever the keys.
#include "cpu/topk/topk_forward_workspace.h"

#include <gtest/gtest.h>

#include <string>

#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_forward.h"
#include "tests/cpu/topk/topk.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::PlanOn;
using testing::ProblemOf;
using testing::TopKSpace;

int64_t BytesOf(const std::string& line, int64_t workers = 2) {
  return PlanOn(kCpuTopKForward, ProblemOf(line), workers).workspace.bytes();
}

TEST(TopKScratch, DoesNotGrowWithSequences) {
  const std::string start = "fwd bf16 h=128/1 d=512+64/512 topk:2048 shared ";
  const int64_t bytes = BytesOf(start + "q=100 k=8192");
  EXPECT_EQ(BytesOf(start + "q=9000 k=8192"), bytes);
  EXPECT_EQ(BytesOf(start + "q=100 k=131072"), bytes);
  EXPECT_LT(bytes, 4 << 20);
}

TEST(TopKScratch, GrowsWithWorkers) {
  const std::string line =
      "fwd bf16 h=16/1 d=512+64/512 topk:2048 q=100 k=8192";
  EXPECT_EQ(2 * BytesOf(line, 2), BytesOf(line, 4));
}

// Few positions split their lists; then nobody waits for one worker.
TEST(TopKScratch, FewPositionsHaveParts) {
  const auto parts = [](const std::string& line) {
    const AttentionProblem problem = ProblemOf(line);
    const TileShape shape = TopKTileShape(problem, {});
    return CeilDiv(MaxListedKeys(problem), shape.split_keys);
  };
  EXPECT_EQ(parts("fwd f32 h=4/1 d=8 q=1 k=9000 topk:2048"), 8);
  EXPECT_EQ(parts("fwd f32 h=4/1 d=8 q=8 k=9000 topk:2048"), 2);
  EXPECT_EQ(parts("fwd f32 h=4/1 d=8 q=16 k=9000 topk:2048"), 1);
  EXPECT_EQ(parts("fwd f32 h=4/1 d=8 q=1 k=9000 topk:300"), 1);
}

TEST(TopKScratch, SlotsShareNothing) {
  ForRandomProblems(
      200, TopKSpace(Direction::kForward),
      [](const AttentionProblem& p, Random&) {
        if (!p.kv.gathers()) return;
        const TileShape shape = TopKTileShape(p, {});
        WorkspaceLayout layout;
        const TopKForwardWorkspace workspace =
            ReserveTopKForward(p, shape, 3, layout);
        EXPECT_EQ(layout, PlanOn(kCpuTopKForward, p, 3).workspace);
        std::vector<std::byte> memory(static_cast<size_t>(layout.bytes()));
        const ScoreScratch a = workspace.score.At(memory.data(), 1);
        const ScoreScratch b = workspace.score.At(memory.data(), 2);
        EXPECT_LE(a.keys + (shape.cols + 12) * a.key_stride, b.keys);
        EXPECT_LE(a.query + shape.rows * p.score_dim(), b.query);
        EXPECT_LE(a.query_rows + shape.rows, b.query_rows);
        EXPECT_LE(
            workspace.forward.At(memory.data(), 1).out + shape.rows * p.v_dim,
            workspace.forward.At(memory.data(), 2).out);
        const TopKForwardScratch c = workspace.listed.At(memory.data(), 1);
        const TopKForwardScratch d = workspace.listed.At(memory.data(), 2);
        EXPECT_LE(c.columns + shape.split_keys, d.columns);
        EXPECT_LE(c.values + shape.cols * c.value_stride, d.values);
        EXPECT_EQ(c.value_stride == 0, p.kv.value_is_key);
      });
}

}  // namespace
}  // namespace flashacl::cpu
