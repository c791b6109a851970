// SPDX-License-Identifier: Apache-2.0
// Phase one and phase two of every operator.
#include "acl/executor.h"

#include <chrono>
#include <utility>

#include "acl/backend.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/memory.h"
#include "acl/stream.h"
#include "acl/trace.h"
#include "problem/notation.h"

namespace flashacl::acl {
namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

// What a task that fails while computing leaves on its stream: CANN's code for
// an exception of the device's cores.
constexpr aclError kKernelFailed = 507015;

constexpr aclnnStatus kRuntimeError = 361001;

uint64_t BytesOf(const Plan& plan) {
  if (plan.workspace.bytes() == 0) return 0;
  // Room to align a workspace that starts inside of a larger allocation.
  return static_cast<uint64_t>(plan.workspace.bytes() +
                               WorkspaceLayout::kAlignmentBytes);
}

std::vector<Address> AddressesOf(const Arguments& arguments) {
  std::vector<Address> addresses;
  addresses.reserve(arguments.entries().size());
  for (const Entry& entry : arguments.entries()) {
    addresses.push_back(
        {entry.argument, entry.member,
         arguments.table()[static_cast<size_t>(entry.argument)].output,
         entry.handle, entry.tensor == nullptr ? nullptr : entry.tensor->data,
         entry.tensor != nullptr && !entry.tensor->empty()});
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

Result<std::shared_ptr<Executor>> MakeExecutor(const Operator& op,
                                               const Arguments& arguments,
                                               Lowered lowered) {
  auto executor = std::make_shared<Executor>();
  executor->op = &op;
  executor->addresses = AddressesOf(arguments);
  if (lowered.nothing) return executor;
  FLASHACL_RETURN_IF_ERROR(TargetStatus());
  const auto start = std::chrono::steady_clock::now();
  Result<Plan> plan = MakePlan(TheBackend(), lowered.problem);
  if (!plan.ok()) return plan.status();
  executor->plan = std::make_shared<const Plan>(*std::move(plan));
  profile::NotePlan(executor->plan);
  executor->uses = std::move(lowered.uses);
  if (lowered.compressed_mask >= 0 && TheEnvironment().strict) {
    ExpectCompressed(arguments, lowered.compressed_mask, *executor);
  }
  if (Tracing()) {
    const Microseconds took = std::chrono::steady_clock::now() - start;
    Trace("plan", op.name, *executor->plan, took.count());
  }
  return executor;
}

Status PrepareChecked(const Operator& op, std::span<const Passed> passed,
                      LowerFunction lower, PhaseOne answer) {
  Result<Arguments> arguments = Arguments::Read(op.arguments, passed);
  if (!arguments.ok()) return arguments.status();
  FLASHACL_RETURN_IF_ERROR(arguments->CheckPresent());
  if (answer.workspace_size == nullptr) {
    return NullArgument("The workspaceSize cannot be nullptr.");
  }
  if (answer.executor == nullptr) {
    return NullArgument("The executor cannot be nullptr.");
  }
  Result<Lowered> lowered = lower(*arguments);
  if (!lowered.ok()) return lowered.status();
  Result<std::shared_ptr<Executor>> executor =
      MakeExecutor(op, *arguments, *std::move(lowered));
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

// Where the slots are in this run. kNullArgument if a tensor that has elements
// has no address.
Status Bind(const Executor& executor, Bindings& bindings) {
  const Lengths& lengths = executor.plan->problem().lengths;
  for (const Use& use : executor.uses) {
    for (const Address& address : executor.addresses) {
      if (address.argument != use.argument || address.member != use.member) {
        continue;
      }
      if (address.data == nullptr && address.has_elements) {
        return NullArgument("{}: the tensor has no data address",
                            executor.op->arguments[use.argument].name);
      }
      std::byte* const at =
          address.data == nullptr ? nullptr : address.data + use.offset_bytes;
      if (!use.in_list) {
        bindings[use.slot] = at;
        continue;
      }
      auto& list =
          use.slot == Slot::kKey ? bindings.key_list : bindings.value_list;
      list.resize(static_cast<size_t>(lengths.count()));
      list[static_cast<size_t>(use.member)] = at;
    }
  }
  return {};
}

std::byte* Aligned(void* workspace) {
  constexpr uintptr_t kMask = WorkspaceLayout::kAlignmentBytes - 1;
  const uintptr_t at = reinterpret_cast<uintptr_t>(workspace);
  return reinterpret_cast<std::byte*>((at + kMask) & ~kMask);
}

// One run on the stream's thread.
struct Launched {
  std::shared_ptr<const Executor> executor;
  Bindings bindings;
  std::byte* workspace;
  const std::byte* compressed_mask;  // null unless strict mode looks at it
  BlockUse blocks;  // memory freed meanwhile stays until the run is over

  // What strict mode wants to be told of contents.
  Status Check(Queue& queue) const {
    if (!TheEnvironment().strict) return {};
    return queue.OnHost([this](Workers&) -> Status {
      if (compressed_mask != nullptr) {
        FLASHACL_RETURN_IF_ERROR(
            executor->compressed_mask->Check(compressed_mask));
      }
      return CheckDeviceTensors(executor->plan->problem(), bindings);
    });
  }

  aclError operator()() const {
    const Operator* const op = executor->op;
    const Plan* const plan = executor->plan.get();
    profile::NotePlan(executor->plan);
    const auto start = std::chrono::steady_clock::now();
    Queue& queue = QueueOfThisStream();
    Status status = Check(queue);
    if (status.ok()) status = Run(queue, *plan, bindings, workspace);
    if (Tracing()) {
      const Microseconds took = std::chrono::steady_clock::now() - start;
      Trace("launch", op->name, *plan, took.count());
    }
    if (status.ok()) return 0;
    return Fail(kKernelFailed, Title::kRuntime,
                Str("{}: {}", op->name, status.message()));
  }
};

// What a stream is given: small enough that its task needs no memory.
struct LaunchTask {
  std::shared_ptr<const Launched> run;
  aclError operator()() const { return (*run)(); }
};

std::vector<const void*> BlocksOf(const Bindings& bindings,
                                  const void* workspace) {
  std::vector<const void*> addresses{workspace};
  for (const std::byte* at : bindings.at) {
    if (at != nullptr) addresses.push_back(at);
  }
  addresses.insert(addresses.end(), bindings.key_list.begin(),
                   bindings.key_list.end());
  addresses.insert(addresses.end(), bindings.value_list.begin(),
                   bindings.value_list.end());
  return addresses;
}

const std::byte* CompressedMaskOf(const Executor& executor) {
  if (!executor.compressed_mask.has_value()) return nullptr;
  for (const Address& address : executor.addresses) {
    if (address.argument != executor.compressed_argument) continue;
    return address.data == nullptr
               ? nullptr
               : address.data + executor.compressed_offset_bytes;
  }
  return nullptr;
}

Status Submit(const std::shared_ptr<Executor>& keep, void* workspace,
              uint64_t workspace_size, aclrtStream stream,
              aclnnStatus* enqueued) {
  Executor& executor = *keep;
  const profile::Span span(profile::Kind::kLaunch, executor.op->name);
  const uint64_t needed = executor.workspace_bytes();
  if (needed > 0 && workspace == nullptr) {
    return NullArgument(
        "{}: workspace is a NULL pointer, expected {} bytes of device memory",
        executor.op->name, needed);
  }
  if (workspace_size < needed) {
    return Invalid("{}: workspaceSize {}, expected at least {}",
                   executor.op->name, workspace_size, needed);
  }
  if (executor.plan == nullptr) {
    // Nothing to do; in a group of tasks it takes its place all the same.
    aclError error = ACL_SUCCESS;
    const auto at = stream == nullptr
                        ? nullptr
                        : FindStream(stream, executor.op->name, &error);
    if (error == ACL_SUCCESS && at != nullptr && at->recorder() != nullptr) {
      error = at->Push([] { return ACL_SUCCESS; }, executor.op->name,
                       TaskKind::kOperator);
    }
    if (error != ACL_SUCCESS) *enqueued = kRuntimeError;
    return {};
  }
  Bindings bindings;
  const std::byte* compressed_mask = nullptr;
  {
    std::lock_guard lock(executor.mutex);
    FLASHACL_RETURN_IF_ERROR(Bind(executor, bindings));
    compressed_mask = CompressedMaskOf(executor);
  }
  LaunchTask task{std::make_shared<const Launched>(
      Launched{keep, bindings, Aligned(workspace), compressed_mask,
               BlockUse(BlocksOf(bindings, workspace))})};
  if (Enqueue(stream, std::move(task), executor.op->name,
              TaskKind::kOperator) != 0) {
    *enqueued = kRuntimeError;
  }
  return {};
}

}  // namespace

std::string DescribeLaunch(const Task& task) {
  const LaunchTask* const launch = task.target<LaunchTask>();
  if (launch == nullptr) return {};
  const Plan& plan = *launch->run->executor->plan;
  return Str("{} by {}", ToString(plan.problem()), plan.implementation->name);
}

uint64_t Executor::workspace_bytes() const {
  return plan == nullptr ? 0 : BytesOf(*plan);
}

Result<uint64_t> WorkspaceBytes(const AttentionProblem& problem) {
  const Result<Plan> plan = MakePlan(TheBackend(), problem);
  if (!plan.ok()) return plan.status();
  return BytesOf(*plan);
}

void Lowered::Bind(const Arguments& arguments, int argument, Slot slot,
                   int64_t more_elements) {
  const Tensor& tensor = arguments[argument];
  uses.push_back({argument, 0, slot, false,
                  (tensor.offset + more_elements) * SizeOf(tensor.dtype())});
}

void Lowered::BindList(const Arguments& arguments, int argument, Slot slot) {
  for (const Entry& entry : arguments.list(argument)) {
    uses.push_back({argument, entry.member, slot, true, entry->offset_bytes()});
  }
}

aclnnStatus Prepare(const Operator& op, std::span<const Passed> passed,
                    LowerFunction lower, PhaseOne answer) noexcept {
  const profile::Span span(profile::Kind::kPlan, op.name);
  return span.Returned(Guard(op.contradiction, [&]() -> Status {
    return PrepareChecked(op, passed, lower, answer);
  }));
}

aclnnStatus Launch(void* workspace, uint64_t workspace_size,
                   aclOpExecutor* executor, aclrtStream stream) noexcept {
  aclnnStatus enqueued = 0;
  const aclnnStatus status = Guard(kRuntimeError, [&]() -> Status {
    if (executor == nullptr) {
      return NullArgument("The executor cannot be nullptr.");
    }
    std::shared_ptr<Executor> found = Find<Executor>(executor);
    if (found == nullptr) {
      return Internal(
          "executor: not a live aclOpExecutor; phase two consumes it unless "
          "aclSetAclOpExecutorRepeatable was called");
    }
    if (!found->repeatable) (void)Take<Executor>(executor);
    return Submit(found, workspace, workspace_size, stream, &enqueued);
  });
  return status != 0 ? status : enqueued;
}

}  // namespace flashacl::acl
