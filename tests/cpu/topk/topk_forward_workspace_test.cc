// SPDX-License-Identifier: Apache-2.0
// Scratch memory over listed keys: as large as a list, whatever the keys.
#include "cpu/topk/topk_forward_workspace.h"

#include <gtest/gtest.h>

#include <string>

#include "cpu/implementations.h"
#include "cpu/share_tuning.h"
#include "cpu/topk/index_lists.h"
#include "tests/cpu/runs.h"

namespace flashacl::cpu {
namespace {

using testing::PlanOn;
using testing::ProblemOf;

int64_t BytesOf(const std::string& line, int64_t workers = 2) {
  return PlanOn(kCpuTopKForward, ProblemOf(line), workers).workspace.bytes();
}

TEST(TopKWorkspace, DoesNotGrowWithSequences) {
  const std::string start = "fwd bf16 h=128/1 d=512+64/512 topk:2048 shared ";
  const int64_t bytes = BytesOf(start + "q=200 k=8192");
  EXPECT_EQ(BytesOf(start + "q=9000 k=8192"), bytes);
  EXPECT_EQ(BytesOf(start + "q=200 k=131072"), bytes);
  EXPECT_LT(bytes, 4 << 20);
}

// Rows of few positions are split: a sum of 512 channels, a maximum and a sum.
TEST(TopKWorkspace, SplitsTakeNoMoreThanSoMuch) {
  const int64_t most = (4 << 20) + 4 * (512 + 2) * kTopKSplits * kManyTopKRows;
  const std::string start = "fwd bf16 h=128/1 d=512+64/512 topk:2048 shared ";
  const int64_t bytes = BytesOf(start + "q=128 k=8192");
  EXPECT_LE(bytes, most);
  EXPECT_GT(bytes, most - (8 << 20));
  EXPECT_LT(BytesOf(start + "q=129 k=8192"), 4 << 20);
}

TEST(TopKWorkspace, GrowsWithWorkers) {
  const std::string line =
      "fwd bf16 h=16/1 d=512+64/512 topk:2048 q=1025 k=8192";
  EXPECT_EQ(2 * BytesOf(line, 2), BytesOf(line, 4));
}

// Few positions split their lists; then nobody waits for one worker.
TEST(TopKWorkspace, FewPositionsHaveSplits) {
  const auto splits = [](const std::string& line) {
    const AttentionProblem problem = ProblemOf(line);
    const TileShape shape = TopKTileShape(problem, {});
    return CeilDiv(MaxListedKeys(problem), shape.split_keys);
  };
  EXPECT_EQ(splits("fwd f32 h=4/1 d=8 q=1 k=9000 topk:2048"), 8);
  EXPECT_EQ(splits("fwd f32 h=4/1 d=8 q=8 k=9000 topk:2048"), 3);
  EXPECT_EQ(splits("fwd f32 h=4/1 d=8 q=4096 k=9000 topk:2048"), 3);
  EXPECT_EQ(splits("fwd f32 h=4/1 d=8 q=4097 k=9000 topk:2048"), 1);
  EXPECT_EQ(splits("fwd f32 h=4/1 d=8 q=1 k=9000 topk:300"), 1);
}

}  // namespace
}  // namespace flashacl::cpu
