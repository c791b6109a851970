// SPDX-License-Identifier: Apache-2.0
// Phase two of every operator.
#include "acl/launch.h"

#include <chrono>
#include <utility>

#include "acl/backend.h"
#include "acl/call_recorder.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/executor.h"
#include "acl/finding.h"
#include "acl/initcheck.h"
#include "acl/meaning.h"
#include "acl/memcheck.h"
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

// kNullArgument if a tensor that has elements has no address.
Status CheckAddress(const Executor& executor, const Address& address) {
  if (address.data == nullptr && address.has_elements) {
    return NullArgument(
        "{}: the tensor has no data address",
        executor.op->arguments[static_cast<size_t>(address.argument)].name);
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

  // What strict mode says of the memory before it is used: what it races with.
  std::string Watch(Queue& queue) const {
    if (accesses.empty()) return {};
    (void)queue.OnHost([this](Workers&) -> Status {
      CheckInitialised(executor->op->name, accesses);
      return {};
    });
    return NoteAccesses(executor->op->name, accesses);
  }

  aclError Run() const {
    if (record != nullptr) record->Before();
    const auto start = std::chrono::steady_clock::now();
    const std::string race = Watch(QueueOfThisStream());
    // Who races may be using the memory at this moment.
    Status status = race.empty() ? RunOn(QueueOfThisStream())
                                 : Found(RuntimeFailure("{}", race));
    const Microseconds ran = std::chrono::steady_clock::now() - start;
    status = Traced("run", executor->op->name, std::move(status));
    if (Tracing()) {
      const Microseconds took = std::chrono::steady_clock::now() - start;
      Trace(took.count());
    }
    const aclError code = status.ok() ? 0 : kKernelFailed;
    if (record != nullptr) {
      record->After({code, status.message()}, ThisStream().id(), ran.count());
    }
    if (status.ok()) return 0;
    return Fail(kKernelFailed, Title::kRuntime,
                Str("{}: {}", executor->op->name, status.message()));
  }

  const std::shared_ptr<const Executor> executor;
  std::byte* const workspace;
  const BlockUse blocks;  // memory freed meanwhile stays until the run is over
  std::vector<Access> accesses;       // strict mode only
  std::shared_ptr<RunRecord> record;  // null: not recorded
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
            Found(executor->compressed_mask->Check(compressed_mask)));
      }
      FLASHACL_RETURN_IF_ERROR(
          Found(CheckDeviceTensors(plan().problem(), bindings)));
      for (const auto& advice : AdviceOn(plan().problem(), bindings)) {
        AdviseOnce(executor->op->name, advice);
      }
      return {};
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

// What takes a thread longer is put into the stream, even if that is idle: the
// caller has other things to do (docs/notes/0037).
constexpr double kHereMicroseconds = 64;

// Whether the calling thread may compute it at once. Who watches what streams
// do finds it on a stream's thread. Only attention: of its operands none is
// written, so that what failed here can begin again there.
bool MayRunHere(const Launched& launched) {
  const Plan* const plan = launched.executor->plan.get();
  return plan != nullptr &&
         plan->prepared->microseconds() < kHereMicroseconds &&
         (launched.record == nullptr || launched.record->WaitsForFailure()) &&
         !StreamsAreWatched();
}

// What a stream is given: small enough that its task needs no memory.
struct LaunchTask {
  std::shared_ptr<const Launched> run;
  aclError operator()() const { return run->Run(); }
};

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
    const std::shared_ptr<Executor>& keep, void* workspace,
    uint64_t workspace_size) {
  Result<Bindings> bindings = Bindings{};
  const std::byte* compressed_mask = nullptr;
  BlockUse use;
  std::vector<Access> accesses;
  std::shared_ptr<RunRecord> record;
  {
    std::lock_guard lock(keep->mutex);
    bindings = BindingsOf(*keep);
    if (!bindings.ok()) return bindings.status();
    FLASHACL_RETURN_IF_ERROR(UseMemory(*keep, workspace, &use));
    compressed_mask = CompressedMaskOf(*keep);
    accesses = AccessesOf(*keep, workspace);
    record = RecordRun(*keep, {workspace != nullptr, workspace_size});
  }
  auto launched = std::make_shared<LaunchedAttention>(keep, Aligned(workspace),
                                                      std::move(use));
  launched->bindings = std::move(*bindings);
  launched->compressed_mask = compressed_mask;
  launched->accesses = std::move(accesses);
  launched->record = std::move(record);
  return std::shared_ptr<const Launched>(std::move(launched));
}

Result<std::shared_ptr<const Launched>> LaunchComputation(
    const std::shared_ptr<Executor>& keep, void* workspace,
    uint64_t workspace_size) {
  BlockUse use;
  std::unique_lock lock(keep->mutex);
  Result<std::vector<std::byte*>> at = DataOf(*keep);
  if (!at.ok()) return at.status();
  FLASHACL_RETURN_IF_ERROR(UseMemory(*keep, workspace, &use));
  std::vector<Access> accesses = AccessesOf(*keep, workspace);
  std::shared_ptr<RunRecord> record =
      RecordRun(*keep, {workspace != nullptr, workspace_size});
  lock.unlock();
  auto launched = std::make_shared<LaunchedComputation>(
      keep, Aligned(workspace), std::move(use));
  launched->at = *std::move(at);
  launched->accesses = std::move(accesses);
  launched->record = std::move(record);
  return std::shared_ptr<const Launched>(std::move(launched));
}

// Any phase two runs any executor; on the device it is another kernel's.
Status CheckCaller(const Executor& executor, std::string_view caller) {
  const std::string_view name = executor.op->name;
  if (!TheEnvironment().strict || !caller.starts_with("aclnn")) return {};
  if (caller == name) return {};
  return Found(Invalid("{}: the executor is one of {}", caller, name));
}

// What phase two answers for a failure.
aclnnStatus CodeOf(const Status& status) {
  switch (status.code()) {
    case Code::kNullArgument:
      return 161001;
    case Code::kOutOfMemory:
    case Code::kRuntime:
      return kRuntimeError;
    default:
      return 161002;
  }
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

aclError SubmitRun(std::shared_ptr<const Launched> launched,
                   aclrtStream stream) {
  const std::string_view name = launched->executor->op->name;
  aclError error = ACL_SUCCESS;
  const std::shared_ptr<Stream> at = FindStream(stream, name, &error);
  if (at == nullptr) return error;
  const auto run = [&](Queue& queue) {
    Status status = launched->RunOn(queue);
    if (status.ok()) launched = nullptr;
    return status;
  };
  if (MayRunHere(*launched) && at->RunHere(run)) return ACL_SUCCESS;
  return at->Push(LaunchTask{std::move(launched)}, name, TaskKind::kOperator);
}

Status SubmitExecutor(const std::shared_ptr<Executor>& keep, void* workspace,
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
      executor.plan != nullptr
          ? LaunchAttention(keep, workspace, workspace_size)
          : LaunchComputation(keep, workspace, workspace_size);
  if (!launched.ok()) return launched.status();
  if (SubmitRun(*std::move(launched), stream) != 0) *enqueued = kRuntimeError;
  return {};
}

}  // namespace

Result<Bindings> BindingsOf(const Executor& executor) {
  Bindings bindings;
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
  return bindings;
}

std::string DescribeLaunch(const Task& task) {
  const LaunchTask* const launch = task.target<LaunchTask>();
  return launch == nullptr ? std::string() : launch->run->Describe();
}

aclnnStatus Launch(void* workspace, uint64_t workspace_size,
                   aclOpExecutor* executor, aclrtStream stream,
                   const char* caller) noexcept {
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
    FLASHACL_RETURN_IF_ERROR(CheckCaller(*found, caller));
    Status submitted = Traced(
        "launch", found->op->name,
        SubmitExecutor(found, workspace, workspace_size, stream, &enqueued));
    const aclnnStatus failed = submitted.ok() ? enqueued : CodeOf(submitted);
    if (failed != 0) {
      RecordFailedLaunch(*found, {workspace != nullptr, workspace_size}, failed,
                         submitted.message());
    }
    return submitted;
  });
  return status != 0 ? status : enqueued;
}

}  // namespace flashacl::acl
