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
using testing::OnTarget;
using testing::TopKSpace;

// Of every position, in fenced memory: its saved pds, the gradient of its
// queries, and what it adds to the keys of its first d block.
void DifferentiateFenced(const AttentionProblem& p, const Bindings& bindings) {
  WorkspaceLayout layout;
  const TopKBackwardTiling cut = TopKBackwardTilingOf(p, {});
  const TopKBackwardWorkspace workspace =
      ReserveTopKBackward(p, cut, 1, layout);
  const TopKBackwardKernels kernels = TopKBackward();
  const TopKBackwardOperands run(p, bindings, cut);
  std::vector<FencedBytes> memory;
  const auto allocate = [&](int64_t bytes) {
    return memory.emplace_back(bytes).data();
  };
  const FencedBytes grad_query(workspace.grad_query_floats * 4);
  const TopKBackwardMemory item_memory{
      workspace.score.Apart(allocate), workspace.scratch.Apart(allocate),
      workspace.saved.Apart(allocate), grad_query.as<float>()};
  const FencedBytes sums(cut.batch_rows * cut.d_block_channels * 4);
  std::memset(sums.data(), 0, sums.span().size());
  run.ClearUnownedRows();
  for (const TopKBackwardBatch& batch : run.Batches()) {
    for (int64_t n = 0; n < batch.positions(); ++n) {
      const TopKBackwardSequenceHead& sequence_head = batch.SequenceHeadOf(n);
      const TopKBackwardDqItem item =
          run.DqItemOf(sequence_head.OwnerOf(n), 0, item_memory);
      kernels.differentiate(item);
      if (cut.key_d_blocks == 0) continue;
      const int64_t channels =
          std::min(cut.d_block_channels, p.qk_dim + p.rope_dim);
      DkvArgs add;
      add.columns = item.saved.columns;
      add.probs = item.saved.probs;
      add.grad_scores = item.saved.grad_scores;
      add.query = item.saved.query;
      add.channels = channels;
      add.count = item.count;
      add.heads = p.group();
      add.head_stride = cut.head_stride;
      add.sums =
          sums.as<float>() + sequence_head.rows.first * cut.d_block_channels;
      add.sum_stride = cut.d_block_channels;
      kernels.add_to_keys(add);
    }
  }
}

class GradFences : public ::testing::TestWithParam<int64_t> {
 protected:
  static void Check(const AttentionProblem& p, Random& random) {
    if (!kCpuTopKBackward.supports(p, {}).ok()) return;
    SmallCase small(p);
    small.FillInputs(random);
    testing::SpoilLists(small, random);
    RunForwardTwin(small);
    const FencedTensors items(small, FencedBytes::Side::kEnd);
    ExpectStaysInside(kCpuTopKBackward, small, {2, 3});
    DifferentiateFenced(p, items.bindings());
    if (TopKBackwardTilingOf(p, {}).num_splits > 1) return;
    ExpectSameBits(small, items.bindings(),
                   {Slot::kGradQuery, Slot::kGradQueryRope});
  }
};

TEST_P(GradFences, SmallProblemsStayInside) {
  const OnTarget target(GetParam());
  ForRandomProblems(
      400, TopKSpace(Direction::kBackward),
      [](const AttentionProblem& p, Random& random) { Check(p, random); });
}

TEST_P(GradFences, LongListsStayInside) {
  const OnTarget target(GetParam());
  testing::Space space = TopKSpace(Direction::kBackward);
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
