// SPDX-License-Identifier: Apache-2.0
// The workspace of any lengths.
#include "ops/training_workspace.h"

#include <algorithm>

#include "acl/error.h"
#include "acl/handle.h"

namespace flashacl::ops {
namespace {

// The most any lengths ask for: one sequence of all rows, which sees all, with
// lengths that nobody knows before it runs. What is as large as the lengths say
// is not there.
AttentionProblem Widest(AttentionProblem problem) {
  const int64_t rows = problem[Slot::kQuery].dims[1];
  const int64_t columns = problem[Slot::kKey].dims[1];
  for (Sequence& sequence : problem.lengths.sequences) {
    sequence = {{rows, rows}, {columns, columns}};
  }
  problem.lengths.sequences.front() = {{0, rows}, {0, columns}};
  problem.lengths.queries = problem.lengths.keys = Lengths::Device::kEnds;
  problem[Slot::kQueryLengths] = problem[Slot::kKeyLengths] =
      DenseSpec(DType::kI64, {problem.lengths.count(), 1, 1, 1});
  problem.mask = {};
  problem.score.bias = Score::Bias::kNone;
  problem.score.keep_probability = 1;
  for (const Slot slot :
       {Slot::kMask, Slot::kBias, Slot::kKeep, Slot::kGradBias}) {
    problem[slot] = {};
  }
  return problem;
}

// Raises `workspace_size` to what the executor's call would need with any
// lengths.
Status RaiseToMax(const aclOpExecutor* handle, uint64_t& workspace_size) {
  const auto executor = acl::Find<acl::Executor>(handle);
  if (executor == nullptr || executor->plan == nullptr) return {};
  const Result<uint64_t> most =
      acl::WorkspaceBytes(Widest(executor->plan->problem()));
  if (!most.ok()) return most.status();
  workspace_size = std::max(workspace_size, *most);
  return {};
}

}  // namespace

aclnnStatus PrepareForAnyLengths(const acl::Operator& op, PrepareFunction plan,
                                 acl::PhaseOne answer) noexcept {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status =
      plan({answer.workspace_size == nullptr ? nullptr : &size,
            answer.executor == nullptr ? nullptr : &executor});
  if (status != 0) return status;
  const aclnnStatus raised =
      acl::Guard(op.contradiction, [&] { return RaiseToMax(executor, size); });
  if (raised != 0) {
    (void)aclDestroyAclOpExecutor(executor);
    return raised;
  }
  *answer.workspace_size = size;
  *answer.executor = executor;
  return 0;
}

}  // namespace flashacl::ops
