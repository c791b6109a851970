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
using testing::PlanOn;
using testing::Space;
using testing::TopKSpace;

// One slot's memory, every region by itself.
class FencedTile {
 public:
  explicit FencedTile(const TopKForwardWorkspace& place) : place_(place) {
    ForwardScratch& scratch = tile_.tile.scratch;
    scratch.query = Own(place.query);
    scratch.out = Own(place.out);
    scratch.max = Own(place.states, 2);
    scratch.sum = Own(place.states, 2);
    scratch.keys = Own(place.keys);
    scratch.scores = Own(place.scores);
    scratch.staging = Own(place.staging);
    scratch.quant = Own(place.quant);
    scratch.lanes = Own(place.lanes);
    scratch.key_stride = place.key_stride;
    scratch.staging_stride = place.staging_stride;
    const bool shared = place.value_stride == 0;
    tile_.values = shared ? scratch.keys : Own(place.values);
    tile_.value_stride = shared ? place.key_stride : place.value_stride;
  }

  const TopKTile& tile() const { return tile_; }

 private:
  template <typename T>
  T* Own(const Region<T>& region, int64_t shares = 1) {
    const int64_t count = region.count / place_.slots / shares;
    memory_.emplace_back(count * static_cast<int64_t>(sizeof(T)));
    return memory_.back().template as<T>();
  }

  const TopKForwardWorkspace& place_;
  std::vector<FencedBytes> memory_;
  TopKTile tile_{};
};

// What launch does with whole lists, item by item.
void LaunchByItems(const Plan& plan, const Bindings& bindings) {
  WorkspaceLayout layout;
  const TopKForwardWorkspace place = TopKForwardLayout(plan, layout);
  const FencedTile fenced(place);
  const ForwardOperands run(plan.problem, bindings, plan.shape);
  run.ClearUnownedRows();
  const WorkItems items(plan.problem, run.sequences(), plan.shape.rows);
  const IndexLists lists(plan.problem, bindings);
  const FencedBytes columns(plan.shape.split_keys * 8);
  for (int64_t n = 0; n < items.count(); ++n) {
    const WorkItem item = items.At(n);
    TopKTile topk = fenced.tile();
    ForwardTile& tile = topk.tile;
    tile = run.TileOf(
        {item.owner.sequence, item.owner.kv_head, item.rows, Range{}, 0, 1},
        fenced.tile().tile.scratch);
    const int64_t count = lists.Fill(
        item.owner, run.sequences()[static_cast<size_t>(item.owner.sequence)],
        tile.band, tile.keys, {0, MaxListedKeys(plan.problem)},
        columns.as<int64_t>());
    tile.cols = {0, count};
    topk.columns = columns.as<int64_t>();
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
    const Plan plan = PlanOn(kCpuTopKForward, p);
    if (plan.shape.split_keys < MaxListedKeys(p)) return;
    LaunchByItems(plan, items.bindings());
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
