// SPDX-License-Identifier: Apache-2.0
// The table row of the reference.
#include "reference/reference.h"

namespace flashacl {
namespace {

// Everything but what no workspace could hold: tensors that repeat an element
// may be larger than any memory.
Status Supports(const AttentionProblem& problem, const DeviceInfo&) {
  constexpr double kMaxElements = 0x1p50;
  const int64_t most = problem.lengths.max_columns();
  const auto columns = static_cast<double>(most);
  const double listed =
      problem.kv.gathers()
          ? columns * static_cast<double>(problem[Slot::kTopK].dims[3])
          : columns;
  const double channels = static_cast<double>(problem.qk_dim) +
                          static_cast<double>(problem.rope_dim) +
                          static_cast<double>(problem.v_dim);
  if ((columns + 1) * (channels + 1) + listed < kMaxElements) return {};
  return Unsupported("{} columns of {} channels take too much workspace", most,
                     channels);
}

std::shared_ptr<const Prepared> Prepare(const AttentionProblem& problem,
                                        const DeviceInfo& device,
                                        WorkspaceLayout& workspace) {
  return problem.direction == Direction::kForward
             ? reference::PrepareForward(problem, device, workspace)
             : reference::PrepareBackward(problem, device, workspace);
}

}  // namespace

const Implementation kReference{
    .name = "reference/fp64", .supports = Supports, .prepare = Prepare};

}  // namespace flashacl
