// SPDX-License-Identifier: Apache-2.0
// The kernels of gradients read and write their tensors and their workspace,
// and not one byte more; and one region of a worker does not reach another's.
#include "cpu/topk/topk_backward_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/forward/forward_kernel.h"
#include "cpu/topk/topk_backward.h"
#include "cpu/topk/topk_backward_operands.h"
#include "cpu/topk/topk_backward_workspace.h"
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
using testing::GatheredSpace;
using testing::OnTarget;

// Memory of one item, every region by itself.
class FencedItem {
 public:
  explicit FencedItem(const GradPlace& place) : place_(place) {
    scratch_.query = Own(place.query, place.slots);
    scratch_.grad_out = Own(place.grad_out, place.slots);
    scratch_.rows = Own(place.statistics, place.slots);
    scratch_.keys = Own(place.keys, place.slots);
    const bool shared = place.value_stride == 0;
    scratch_.values = shared ? scratch_.keys : Own(place.values, place.slots);
    scratch_.scores = Own(place.scores, place.slots);
    scratch_.grads = Own(place.grads, place.slots);
    scratch_.stage = Own(place.stage, place.slots);
    scratch_.columns = Own(place.unsorted, place.slots);
    scratch_.lanes = Own(place.lanes, place.slots);
    scratch_.key_stride = place.key_stride;
    scratch_.value_stride = shared ? place.key_stride : place.value_stride;
    scratch_.stage_stride = place.stage_stride;
    const int64_t records = 2 * place.cut.positions;
    record_.columns = Own(place.columns, records);
    record_.weights = Own(place.weights, records);
    record_.grad_scores = Own(place.grad_scores, records);
    record_.query = Own(place.query_blocks, records);
    record_.grad_out = Own(place.grad_out_blocks, records);
    grad_query_ = Own(place.grad_queries, place.cut.positions);
    ends_ = Own(place.bucket_ends, records);
  }

  const GradScratch& scratch() const { return scratch_; }
  const GradRecord& record() const { return record_; }
  float* grad_query() const { return grad_query_; }
  int64_t* ends() const { return ends_; }

 private:
  template <typename T>
  T* Own(const Region<T>& region, int64_t shares) {
    memory_.emplace_back(region.count / shares *
                         static_cast<int64_t>(sizeof(T)));
    return memory_.back().template as<T>();
  }

  const GradPlace& place_;
  std::vector<FencedBytes> memory_;
  GradScratch scratch_{};
  GradRecord record_{};
  float* grad_query_;
  int64_t* ends_;
};

// Of every position, in fenced memory: its record, the gradient of its queries,
// and what it adds to the keys of its first slice.
void DifferentiateFenced(const AttentionProblem& p, const Bindings& bindings) {
  WorkspaceLayout layout;
  const GradCut cut = CutGradients(p, {});
  const GradPlace place = GradLayout(p, cut, 1, layout);
  const GatheredBackwardKernels kernels = GatheredBackward();
  const GradRun run(p, bindings, cut);
  const FencedItem fenced(place);
  const FencedBytes sums(cut.rows * cut.slice_channels * 4);
  std::memset(sums.data(), 0, sums.span().size());
  run.ClearRowsOfNobody();
  for (const GradWave& wave : run.Waves()) {
    for (int64_t n = 0; n < wave.positions(); ++n) {
      const GradUnit& unit = wave.UnitOf(n);
      GradItem item = run.ItemOf(unit, n, fenced.scratch());
      item.record = fenced.record();
      item.grad_query = fenced.grad_query();
      run.ListColumns(unit, n, 0, fenced.ends(), item);
      kernels.differentiate(item);
      if (cut.key_slices == 0) continue;
      const int64_t channels =
          std::min(cut.slice_channels, p.qk_dim + p.rope_dim);
      KeyGradItem add;
      add.columns = item.record.columns;
      add.weights = item.record.weights;
      add.grad_scores = item.record.grad_scores;
      add.query = item.record.query;
      add.grad_out = nullptr;
      add.channels = channels;
      add.count = item.count;
      add.heads = run.shape().heads;
      add.head_stride = run.shape().head_stride;
      add.sums = sums.as<float>() + unit.rows.first * cut.slice_channels;
      add.sum_stride = cut.slice_channels;
      kernels.add_to_keys(add);
    }
  }
}

class GradFences : public ::testing::TestWithParam<int64_t> {
 protected:
  static void Check(const AttentionProblem& p, Random& random) {
    if (!kCpuGatheredBackward.supports(p, {}).ok()) return;
    SmallCase small(p);
    small.FillInputs(random);
    testing::SpoilLists(small, random);
    RunForwardTwin(small);
    const FencedTensors items(small, FencedBytes::Side::kEnd);
    ExpectStaysInside(kCpuGatheredBackward, small, {2, 3});
    DifferentiateFenced(p, items.bindings());
    if (CutGradients(p, {}).parts > 1) return;
    ExpectSameBits(small, items.bindings(),
                   {Slot::kGradQuery, Slot::kGradQueryRope});
  }
};

TEST_P(GradFences, SmallProblemsStayInside) {
  const OnTarget target(GetParam());
  ForRandomProblems(
      400, GatheredSpace(Direction::kBackward),
      [](const AttentionProblem& p, Random& random) { Check(p, random); });
}

TEST_P(GradFences, LongListsStayInside) {
  const OnTarget target(GetParam());
  testing::Space space = GatheredSpace(Direction::kBackward);
  space.most_sequences = 2;
  space.most_rows = 5;
  space.most_columns = 1000;
  space.most_heads = 40;
  space.most_dim = 40;
  ForRandomProblems(40, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random);
  });
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, GradFences,
    ::testing::ValuesIn(testing::TargetsHere(ForwardTargets())),
    testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
