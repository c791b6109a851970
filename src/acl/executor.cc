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
    addresses.push_back({entry.argument, entry.member, row.input(), row.output,
                         entry.handle,
                         entry.tensor == nullptr ? nullptr : entry.tensor->data,
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
  const auto start = std::chrono::steady_clock::now();
  Result<Plan> plan = MakePlan(TheBackend(), lowered->problem);
  if (!plan.ok()) return plan.status();
  executor->plan = std::make_shared<const Plan>(*std::move(plan));
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

// kNullArgument if a tensor that has elements has no address.
Status CheckAddress(const Executor& executor, const Address& address) {
  if (address.data == nullptr && address.has_elements) {
    return NullArgument(
        "{}: the tensor has no data address",
        executor.op->arguments[static_cast<size_t>(address.argument)].name);
  }
  return {};
}

// Where the slots are in this run.
Status Bind(const Executor& executor, Bindings& bindings) {
  const Lengths& lengths = executor.plan->problem().lengths;
  for (const Use& use : executor.uses) {
    for (const Address& address : executor.addresses) {
      if (address.argument != use.argument || address.member != use.member) {
        continue;
      }
      FLASHACL_RETURN_IF_ERROR(CheckAddress(executor, address));
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

// Where all tensors are in this run.
Result<std::vector<std::byte*>> DataOf(const Executor& executor) {
  std::vector<std::byte*> at;
  at.reserve(executor.addresses.size());
  for (const Address& address : executor.addresses) {
    FLASHACL_RETURN_IF_ERROR(CheckAddress(executor, address));
    at.push_back(address.data);
  }
  return at;
}

std::byte* Aligned(void* workspace) {
  constexpr uintptr_t kMask = WorkspaceLayout::kAlignmentBytes - 1;
  const uintptr_t at = reinterpret_cast<uintptr_t>(workspace);
  return reinterpret_cast<std::byte*>((at + kMask) & ~kMask);
}

// One run on the stream's thread.
struct Launched {
  Launched(std::shared_ptr<const Executor> of, std::byte* scratch,
           BlockUse used)
      : executor(std::move(of)), workspace(scratch), blocks(std::move(used)) {}
  virtual ~Launched() = default;

  virtual Status RunOn(Queue& queue) const = 0;
  virtual void Trace(double microseconds) const = 0;
  virtual std::string Describe() const = 0;

  aclError Run() const {
    const auto start = std::chrono::steady_clock::now();
    const Status status = RunOn(QueueOfThisStream());
    if (Tracing()) {
      const Microseconds took = std::chrono::steady_clock::now() - start;
      Trace(took.count());
    }
    if (status.ok()) return 0;
    return Fail(kKernelFailed, Title::kRuntime,
                Str("{}: {}", executor->op->name, status.message()));
  }

  const std::shared_ptr<const Executor> executor;
  std::byte* const workspace;
  const BlockUse blocks;  // memory freed meanwhile stays until the run is over
};

struct LaunchedAttention final : Launched {
  using Launched::Launched;

  Bindings bindings;
  const std::byte* compressed_mask = nullptr;  // null: strict mode has none

  const Plan& plan() const { return *executor->plan; }

  // What strict mode wants to be told of contents.
  Status Check(Queue& queue) const {
    if (!TheEnvironment().strict) return {};
    return queue.OnHost([this](Workers&) -> Status {
      if (compressed_mask != nullptr) {
        FLASHACL_RETURN_IF_ERROR(
            executor->compressed_mask->Check(compressed_mask));
      }
      return CheckDeviceTensors(plan().problem(), bindings);
    });
  }

  Status RunOn(Queue& queue) const override {
    profile::NotePlan(executor->plan);
    FLASHACL_RETURN_IF_ERROR(Check(queue));
    return flashacl::Run(queue, plan(), bindings, workspace);
  }
  void Trace(double microseconds) const override {
    acl::Trace("launch", executor->op->name, plan(), microseconds);
  }
  std::string Describe() const override {
    return Str("{} by {}", ToString(plan().problem()),
               plan().implementation->name);
  }
};

struct LaunchedComputation final : Launched {
  using Launched::Launched;

  std::vector<std::byte*> at;

  const Computation& computation() const { return *executor->computation; }

  Status RunOn(Queue& queue) const override {
    FLASHACL_RETURN_IF_ERROR(computation().Run(at, workspace, queue));
    return queue.Wait();
  }
  void Trace(double microseconds) const override {
    acl::Trace("launch", executor->op->name, computation(), microseconds);
  }
  std::string Describe() const override {
    return Str("{} by {}", computation().Describe(), computation().name());
  }
};

// What a stream is given: small enough that its task needs no memory.
struct LaunchTask {
  std::shared_ptr<const Launched> run;
  aclError operator()() const { return run->Run(); }
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

Result<std::shared_ptr<const Launched>> LaunchAttention(
    const std::shared_ptr<Executor>& keep, void* workspace) {
  Bindings bindings;
  const std::byte* compressed_mask = nullptr;
  {
    std::lock_guard lock(keep->mutex);
    FLASHACL_RETURN_IF_ERROR(Bind(*keep, bindings));
    compressed_mask = CompressedMaskOf(*keep);
  }
  auto launched = std::make_shared<LaunchedAttention>(
      keep, Aligned(workspace), BlockUse(BlocksOf(bindings, workspace)));
  launched->bindings = std::move(bindings);
  launched->compressed_mask = compressed_mask;
  return std::shared_ptr<const Launched>(std::move(launched));
}

Result<std::shared_ptr<const Launched>> LaunchComputation(
    const std::shared_ptr<Executor>& keep, void* workspace) {
  std::unique_lock lock(keep->mutex);
  Result<std::vector<std::byte*>> at = DataOf(*keep);
  lock.unlock();
  if (!at.ok()) return at.status();
  std::vector<const void*> blocks(at->begin(), at->end());
  blocks.push_back(workspace);
  auto launched = std::make_shared<LaunchedComputation>(
      keep, Aligned(workspace), BlockUse(blocks));
  launched->at = *std::move(at);
  return std::shared_ptr<const Launched>(std::move(launched));
}

// A launch that computes nothing takes its place in a group of tasks all the
// same.
aclnnStatus SubmitNothing(const Executor& executor, aclrtStream stream) {
  const std::string_view name = executor.op->name;
  aclError error = ACL_SUCCESS;
  const auto at =
      stream == nullptr ? nullptr : FindStream(stream, name, &error);
  if (at != nullptr && at->recorder() != nullptr) {
    error = at->Push([] { return ACL_SUCCESS; }, name, TaskKind::kOperator);
  }
  return error == ACL_SUCCESS ? 0 : kRuntimeError;
}

Status Submit(const std::shared_ptr<Executor>& keep, void* workspace,
              uint64_t workspace_size, aclrtStream stream,
              aclnnStatus* enqueued) {
  const Executor& executor = *keep;
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
  if (executor.nothing()) {
    *enqueued = SubmitNothing(executor, stream);
    return {};
  }
  Result<std::shared_ptr<const Launched>> launched =
      executor.plan != nullptr ? LaunchAttention(keep, workspace)
                               : LaunchComputation(keep, workspace);
  if (!launched.ok()) return launched.status();
  if (Enqueue(stream, LaunchTask{*std::move(launched)}, executor.op->name,
              TaskKind::kOperator) != 0) {
    *enqueued = kRuntimeError;
  }
  return {};
}

}  // namespace

std::string DescribeLaunch(const Task& task) {
  const LaunchTask* const launch = task.target<LaunchTask>();
  return launch == nullptr ? std::string() : launch->run->Describe();
}

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
    return PrepareChecked(op, passed, make, answer);
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
    return PrepareChecked(op, passed, make, answer);
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
          "aclSetAclOpExecutorRepeatable was called{}",
          IfParents<Executor>(executor));
    }
    if (!found->repeatable) (void)Take<Executor>(executor);
    return Submit(found, workspace, workspace_size, stream, &enqueued);
  });
  return status != 0 ? status : enqueued;
}

}  // namespace flashacl::acl
