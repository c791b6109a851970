// SPDX-License-Identifier: Apache-2.0
// The kernels read and write their tensors and their scratch memory, and not
// one byte more: on every instruction set, between pages that nobody may touch.
#include "cpu/topk/topk_forward_kernel.h"

#include <gtest/gtest.h>

#include <vector>

#include "cpu/forward/forward_kernel.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/topk/index_lists.h"
#include "cpu/topk/topk_forward.h"
#include "cpu/topk/topk_forward_workspace.h"
#include "cpu/topk/work_items.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/targets.h"
#include "tests/cpu/topk/topk.h"

namespace flashacl::cpu {
namespace {

using testing::ExpectSameBits;
using testing::ExpectStaysInside;
using testing::FencedBytes;
using testing::FencedTensors;
using testing::ForRandomProblems;
using testing::OnTarget;
using testing::Space;
using testing::TopKSpace;

// What a run does with whole lists, item by item in scratch memory of which
// every buffer is by itself.
void LaunchByItems(const AttentionProblem& problem, const Bindings& bindings) {
  WorkspaceLayout layout;
  const TileShape shape = TopKTileShape(problem, {});
  const TopKForwardWorkspace workspace =
      ReserveTopKForward(problem, shape, 1, layout);
  std::vector<FencedBytes> memory;
  const auto allocate = [&](int64_t bytes) {
    return memory.emplace_back(bytes).data();
  };
  const ScoreScratch score = workspace.score.Apart(allocate);
  const ForwardScratch forward = workspace.forward.Apart(allocate);
  const TopKForwardScratch lists_scratch = workspace.listed.Apart(allocate);
  const ForwardOperands run(problem, bindings, shape.cols);
  run.ClearUnownedRows();
  const WorkItems items(problem, run.sequences(), shape.rows);
  const IndexLists lists(problem, bindings);
  for (int64_t n = 0; n < items.count(); ++n) {
    const WorkItem item = items.At(n);
    TopKTile topk{run.TileOf({item.owner.sequence, item.owner.kv_head,
                              item.rows, Range{}, 0, 1},
                             score, forward),
                  lists_scratch};
    topk.count = lists.Fill(
        item.owner, run.sequences()[static_cast<size_t>(item.owner.sequence)],
        topk.tile.band, topk.tile.keys, {0, MaxListedKeys(problem)},
        topk.scratch.columns);
    TopKForward().attend(topk);
  }
}

class TopKFences : public ::testing::TestWithParam<int64_t> {
 protected:
  static void Check(const AttentionProblem& p, Random& random) {
    if (!kCpuTopKForward.supports(p, {}).ok()) return;
    SmallCase small(p);
    small.FillInputs(random);
    testing::SpoilLists(small, random);
    const FencedTensors items(small, FencedBytes::Side::kEnd);
    ExpectStaysInside(kCpuTopKForward, small, {2, 3});
    if (TopKTileShape(p, {}).split_keys < MaxListedKeys(p)) return;
    LaunchByItems(p, items.bindings());
    ExpectSameBits(small, items.bindings(), testing::ResultsOf(p));
  }
};

TEST_P(TopKFences, SmallProblemsStayInside) {
  const OnTarget target(GetParam());
  ForRandomProblems(
      1200, TopKSpace(Direction::kForward),
      [](const AttentionProblem& p, Random& random) { Check(p, random); });
}

TEST_P(TopKFences, LongListsStayInside) {
  const OnTarget target(GetParam());
  Space space = TopKSpace(Direction::kForward);
  space.most_sequences = 2;
  space.most_rows = 5;
  space.most_columns = 1500;
  space.most_heads = 40;
  space.most_dim = 40;
  ForRandomProblems(100, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random);
  });
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, TopKFences,
    ::testing::ValuesIn(testing::TargetsHere(ForwardTargets())),
    testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
