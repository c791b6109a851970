// SPDX-License-Identifier: Apache-2.0
// Phase one of every operator.
#include "acl/executor.h"

#include <chrono>
#include <utility>

#include "acl/backend.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/finding.h"
#include "acl/meaning.h"
#include "acl/plan_cache.h"
#include "acl/trace.h"
#include "problem/notation.h"

namespace flashacl::acl {
namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

// What a caller must give where a run needs `bytes`.
uint64_t WithAlignment(int64_t bytes) {
  if (bytes == 0) return 0;
  // Room to align a workspace that starts inside of a larger allocation.
  return static_cast<uint64_t>(bytes + WorkspaceLayout::kAlignmentBytes);
}

std::vector<Address> AddressesOf(const Arguments& arguments) {
  std::vector<Address> addresses;
  addresses.reserve(arguments.entries().size());
  for (const Entry& entry : arguments.entries()) {
    const Argument& row =
        arguments.table()[static_cast<size_t>(entry.argument)];
    Address& address = addresses.emplace_back(Address{
        entry.argument, entry.member, row.input(), row.output, entry.handle});
    if (entry.tensor == nullptr) continue;
    address.data = entry->data;
    address.has_elements = !entry->empty();
    if (MeansAbsent(row, entry)) continue;
    address.offset_bytes = entry->offset_bytes();
    address.extent_bytes = entry->extent_bytes();
    if (TheEnvironment().strict) address.view = ViewOf(*entry.tensor);
  }
  return addresses;
}

// The last two axes of the tensor in `row` must be a compressed mask.
void ExpectCompressed(const Arguments& arguments, int row, Executor& executor) {
  const Tensor& mask = arguments[row];
  executor.compressed_argument = row;
  executor.compressed_offset_bytes = mask.offset_bytes();
  executor.compressed_mask = {
      arguments.name(row), mask.dims[mask.rank - 2], mask.dims[mask.rank - 1],
      mask.strides[mask.rank - 2], mask.strides[mask.rank - 1]};
}

std::shared_ptr<Executor> NewExecutor(const Operator& op,
                                      const Arguments& arguments) {
  auto executor = std::make_shared<Executor>();
  executor->op = &op;
  executor->addresses = AddressesOf(arguments);
  return executor;
}

Result<std::shared_ptr<Executor>> MakeAttention(const Operator& op,
                                                const Arguments& arguments,
                                                LowerFunction lower) {
  Result<Lowered> lowered = lower(arguments);
  if (!lowered.ok()) return lowered.status();
  std::shared_ptr<Executor> executor = NewExecutor(op, arguments);
  if (lowered->nothing) return executor;
  FLASHACL_RETURN_IF_ERROR(TargetStatus());
  if (TheEnvironment().strict) {
    FLASHACL_RETURN_IF_ERROR(Found(CheckNumbers(lowered->problem)));
  }
  const auto start = std::chrono::steady_clock::now();
  Result<std::shared_ptr<const Plan>> plan =
      PlanFor(TheBackend(), lowered->problem);
  if (!plan.ok()) return plan.status();
  executor->plan = *std::move(plan);
  profile::NotePlan(executor->plan);
  executor->uses = std::move(lowered->uses);
  if (lowered->compressed_mask >= 0 && TheEnvironment().strict) {
    ExpectCompressed(arguments, lowered->compressed_mask, *executor);
  }
  if (Tracing()) {
    const Microseconds took = std::chrono::steady_clock::now() - start;
    Trace("plan", op.name, *executor->plan, took.count());
  }
  return executor;
}

Result<std::shared_ptr<Executor>> MakeComputation(const Operator& op,
                                                  const Arguments& arguments,
                                                  ComputeFunction compute) {
  const auto start = std::chrono::steady_clock::now();
  Result<std::shared_ptr<const Computation>> made = compute(arguments);
  if (!made.ok()) return made.status();
  std::shared_ptr<Executor> executor = NewExecutor(op, arguments);
  if (*made == nullptr) return executor;
  FLASHACL_RETURN_IF_ERROR(TargetStatus());
  executor->computation = *std::move(made);
  if (Tracing()) {
    const Microseconds took = std::chrono::steady_clock::now() - start;
    Trace("plan", op.name, *executor->computation, took.count());
  }
  return executor;
}

// Makes the executor of arguments that are there.
using MakeFunction =
    FunctionRef<Result<std::shared_ptr<Executor>>(const Arguments&)>;

Status PrepareChecked(const Operator& op, std::span<const Passed> passed,
                      MakeFunction make, PhaseOne answer) {
  Result<Arguments> arguments = Arguments::Read(op.arguments, passed);
  if (!arguments.ok()) return arguments.status();
  FLASHACL_RETURN_IF_ERROR(arguments->CheckPresent());
  if (answer.workspace_size == nullptr) {
    return NullArgument("The workspaceSize cannot be nullptr.");
  }
  if (answer.executor == nullptr) {
    return NullArgument("The executor cannot be nullptr.");
  }
  Result<std::shared_ptr<Executor>> executor = make(*arguments);
  if (!executor.ok()) return executor.status();
  const uint64_t bytes = (*executor)->workspace_bytes();
  void* const handle = NewHandle(*std::move(executor));
  if (handle == nullptr) {
    return Status(Code::kOutOfMemory, "there are no handles left");
  }
  *answer.executor = static_cast<aclOpExecutor*>(handle);
  *answer.workspace_size = bytes;
  return {};
}

}  // namespace
uint64_t Executor::workspace_bytes() const {
  if (computation != nullptr) {
    return WithAlignment(computation->workspace_bytes());
  }
  return plan == nullptr ? 0 : WithAlignment(plan->workspace.bytes());
}

Result<uint64_t> WorkspaceBytes(const AttentionProblem& problem) {
  const Result<Plan> plan = MakePlan(TheBackend(), problem);
  if (!plan.ok()) return plan.status();
  return WithAlignment(plan->workspace.bytes());
}

Result<uint64_t> MostWorkspaceBytes(const AttentionProblem& problem) {
  const Result<int64_t> bytes = WorkspaceOfAnyLengths(TheBackend(), problem);
  if (!bytes.ok()) return bytes.status();
  return WithAlignment(*bytes);
}

void Lowered::Bind(const Arguments& arguments, int argument, Slot slot,
                   int64_t more_elements) {
  const Tensor& tensor = arguments[argument];
  uses.push_back({argument, 0, slot, false,
                  tensor.BytesOf(tensor.offset + more_elements)});
}

void Lowered::BindList(const Arguments& arguments, int argument, Slot slot) {
  for (const Entry& entry : arguments.list(argument)) {
    uses.push_back({argument, entry.member, slot, true, entry->offset_bytes()});
  }
}

aclnnStatus Prepare(const Operator& op, std::span<const Passed> passed,
                    LowerFunction lower, PhaseOne answer) noexcept {
  const auto make = [&](const Arguments& arguments) {
    return MakeAttention(op, arguments, lower);
  };
  const profile::Span span(profile::Kind::kPlan, op.name);
  return span.Returned(Guard(op.contradiction, [&]() -> Status {
    return Traced("plan", op.name, PrepareChecked(op, passed, make, answer));
  }));
}

aclnnStatus PrepareComputation(const Operator& op,
                               std::span<const Passed> passed,
                               ComputeFunction compute,
                               PhaseOne answer) noexcept {
  const auto make = [&](const Arguments& arguments) {
    return MakeComputation(op, arguments, compute);
  };
  const profile::Span span(profile::Kind::kPlan, op.name);
  return span.Returned(Guard(op.contradiction, [&]() -> Status {
    return Traced("plan", op.name, PrepareChecked(op, passed, make, answer));
  }));
}

}  // namespace flashacl::acl
