// SPDX-License-Identifier: Apache-2.0
// Choosing is a loop over a table, and a refusal is an answer.
#include "plan/plan.h"

#include <algorithm>
#include <utility>

#include "base/str.h"

namespace flashacl {
namespace {

Status Takes(const Implementation& candidate, const AttentionProblem& problem,
             const DeviceInfo& device, const Choice& choice) {
  if (!choice.only.empty() && candidate.name != choice.only) {
    return Unsupported("not the implementation asked for");
  }
  if (!choice.without.empty() && candidate.name == choice.without) {
    return Unsupported("excluded by the caller");
  }
  return candidate.supports(problem, device);
}

Status Suits(const Implementation& candidate, const AttentionProblem& problem,
             const DeviceInfo& device, const Choice& choice) {
  const bool named = !choice.only.empty();
  if (named || candidate.suits == nullptr) return {};
  return candidate.suits(problem, device);
}

// The problem where only the stream knows how long sequences are: none has more
// rows than `most_rows`.
AttentionProblem WithUnknownLengths(const AttentionProblem& problem,
                                    int64_t most_rows) {
  using Device = Lengths::Device;
  AttentionProblem unknown = problem;
  Lengths& lengths = unknown.lengths;
  const TensorSpec& query = problem[Slot::kQuery];
  const TensorSpec& key = problem[Slot::kKey];
  const bool packed_keys =
      problem.kv.rows == KvSource::Rows::kStrided && key.strides[0] == 0;
  lengths.queries = query.strides[0] == 0 ? Device::kEnds : Device::kCounts;
  lengths.keys = packed_keys ? Device::kEnds : Device::kCounts;
  for (Sequence& sequence : lengths.sequences) {
    if (lengths.queries == Device::kEnds) {
      sequence.queries = {0, query.dims[1]};
    }
    if (packed_keys) sequence.keys = {0, key.dims[1]};
    sequence.queries.last = std::min(sequence.queries.last, most_rows);
  }
  const TensorSpec numbers = DenseSpec(DType::kI64, {lengths.count(), 1, 1, 1});
  unknown[Slot::kQueryLengths] = unknown[Slot::kKeyLengths] = numbers;
  // Masks and biases were made for lengths that were known.
  for (const Slot slot : {Slot::kMask, Slot::kBias}) {
    TensorSpec& grid = unknown[slot];
    if (!grid.present()) continue;
    grid = {.dtype = grid.dtype,
            .dims = {lengths.count(), problem.heads, lengths.max_rows(),
                     lengths.max_columns()},
            .strides = {0, 0, 0, 1}};
  }
  return unknown;
}

}  // namespace

Result<Plan> MakePlan(const Backend& backend, const AttentionProblem& problem,
                      const Choice& choice) {
  FLASHACL_RETURN_IF_ERROR(CheckProblem(problem));
  std::string reasons;
  const Implementation* slower = nullptr;  // the first that does not suit
  for (const Implementation& candidate : backend.implementations) {
    Status fits = Takes(candidate, problem, backend.device, choice);
    if (fits.ok()) {
      fits = Suits(candidate, problem, backend.device, choice);
      if (!fits.ok() && slower == nullptr) slower = &candidate;
    }
    if (!fits.ok()) {
      reasons += Str("{}: {}\n", candidate.name, fits.message());
      continue;
    }
    // Any is faster than the reference.
    const bool last = &candidate == &backend.implementations.back();
    Plan plan;
    plan.implementation = last && slower != nullptr ? slower : &candidate;
    plan.prepared =
        plan.implementation->prepare(problem, backend.device, plan.workspace);
    plan.explanation = std::move(reasons);
    return plan;
  }
  return Unsupported("no implementation takes this problem\n{}", reasons);
}

Result<int64_t> WorkspaceOfAnyLengths(const Backend& backend,
                                      const AttentionProblem& problem) {
  // Few rows go to another implementation than many, with other needs.
  constexpr int64_t kMostFewRows = 64;
  int64_t most = 0;
  for (int64_t rows = 0; rows <= kMostFewRows; ++rows) {
    const AttentionProblem unknown =
        WithUnknownLengths(problem, rows == 0 ? Band::kOpen : rows);
    const Result<Plan> plan = MakePlan(backend, unknown);
    if (!plan.ok()) return plan.status();
    most = std::max(most, plan->workspace.bytes());
  }
  return most;
}

Status Run(Queue& queue, const Plan& plan, const Bindings& bindings,
           std::byte* workspace) {
  FLASHACL_RETURN_IF_ERROR(plan.prepared->Run(bindings, workspace, queue));
  return queue.Wait();
}

}  // namespace flashacl
