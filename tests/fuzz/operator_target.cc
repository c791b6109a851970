// SPDX-License-Identifier: Apache-2.0
// One call: changes, both phases, what must hold after them.
#include "tests/fuzz/operator_target.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "acl/acl.h"
#include "acl/backend.h"
#include "acl/executor.h"
#include "plan/cost.h"
#include "problem/notation.h"
#include "tests/fuzz/call_memory.h"
#include "tests/fuzz/change.h"
#include "verify/fill.h"
#include "verify/verify.h"

namespace flashacl::testing {
namespace {

// What is done to a call besides changing its arguments; mostly nothing.
enum class Slip : uint8_t {
  kNoSize,
  kNoExecutor,
  kNoAddress,
  kNoWorkspace,
  kShortWorkspace,
  kStaleStream,
  kTwice,
  kRepeated,
  kNone,
};
constexpr size_t kSlipChoices = 24;

bool Documented(aclnnStatus status) {
  constexpr aclnnStatus kStatuses[] = {161001, 161002, 361001, 561000,
                                       561001, 561002, 561103};
  return std::ranges::count(kStatuses, status) > 0;
}

void RequireMessage() {
  const char* const text = aclGetRecentErrMsg();
  Require(text != nullptr && *text != '\0');
}

// Small enough to take less than some milliseconds.
bool Quick(const AttentionProblem& problem) {
  const Cost cost = CountCost(problem);
  return cost.all_pairs <= 1e5 && cost.flops <= 4e6 && cost.bytes_read <= 1e6 &&
         cost.bytes_written <= 1e6;
}

// One call that phase 1 took.
class Accepted {
 public:
  Accepted(OperatorCall& call, CallMemory& memory, uint64_t size,
           aclOpExecutor* executor)
      : call_(call), memory_(memory), size_(size), handle_(executor) {
    const auto found = acl::Find<acl::Executor>(executor);
    Require(found != nullptr);
    plan_ = found->plan;
    needed_ = found->workspace_bytes();
    Require(size_ >= needed_);
    uses_ = found->uses;
    addresses_ = found->addresses;
  }

  // `compare`: on data that answers can be compared of.
  void Run(bool compare, Slip slip);

 private:
  static constexpr uint64_t kMaxWorkspace = uint64_t{1} << 26;

  bool Runnable() const {
    return memory_.complete() && size_ <= kMaxWorkspace &&
           (plan_ == nullptr || Quick(plan_->problem()));
  }
  aclnnStatus Launch(void* workspace, uint64_t size,
                     aclrtStream stream = nullptr) {
    return call_.Launch(workspace, size, handle_, stream);
  }
  void RequireRefused(aclnnStatus status) const {
    Require(Documented(status));
    RequireMessage();
    memory_.RequireUntouched();
  }
  void LaunchWithoutAddress(void* workspace);
  bool LaunchedInVain(Slip slip, void* workspace);
  bool Comparable() const;
  Bindings Addresses() const;  // of no lists
  void TakeInputsOf(const Sample& truth) const;
  void RequireNear(const Sample& truth) const;

  OperatorCall& call_;
  CallMemory& memory_;
  uint64_t size_;
  uint64_t needed_;  // less than what the longest would
  aclOpExecutor* handle_;
  std::shared_ptr<const Plan> plan_;
  std::vector<acl::Use> uses_;
  std::vector<acl::Address> addresses_;
};

Bindings Accepted::Addresses() const {
  Bindings bindings;
  for (const acl::Use& use : uses_) {
    for (const acl::Address& address : addresses_) {
      if (address.argument != use.argument || use.in_list) continue;
      if (address.data == nullptr) continue;
      bindings[use.slot] = address.data + use.offset_bytes;
    }
  }
  return bindings;
}

// Whether the verifier's data and tolerances fit: no memory is two tensors' or
// elements' at once, and scalars are of usual size.
bool Accepted::Comparable() const {
  if (plan_ == nullptr || memory_.OutputsOverlap()) return false;
  const AttentionProblem& problem = plan_->problem();
  if (problem.kv.rows == KvSource::Rows::kList) return false;
  for (const double real : call_.reals) {
    if (!(std::fabs(real) <= 4 && std::fabs(real) >= 1e-3)) return false;
  }
  const Bindings at = Addresses();
  for (size_t a = 0; a < kSlots; ++a) {
    for (size_t b = a + 1; b < kSlots; ++b) {
      const auto one = static_cast<Slot>(a);
      const auto other = static_cast<Slot>(b);
      if (at[one] == nullptr || at[other] == nullptr) continue;
      if (at[one] < at[other] + BytesOf(problem, other) &&
          at[other] < at[one] + BytesOf(problem, one)) {
        return false;
      }
    }
  }
  return true;
}

void Accepted::TakeInputsOf(const Sample& truth) const {
  const AttentionProblem& problem = plan_->problem();
  const Bindings at = Addresses();
  for (size_t n = 0; n < kSlots; ++n) {
    const auto slot = static_cast<Slot>(n);
    const auto bytes = truth.bytes(slot);
    if (bytes.empty() || IsOutput(problem.direction, slot)) continue;
    std::memcpy(at[slot], bytes.data(), bytes.size());
  }
  memory_.Remember();
}

void Accepted::RequireNear(const Sample& truth) const {
  const AttentionProblem& problem = plan_->problem();
  const Bindings at = Addresses();
  const auto differences =
      Compare({problem, at}, {truth.problem(), truth.bindings()});
  if (AllOk(differences)) return;
  std::fprintf(stderr, "%s: %s\n", call_.name, ToString(problem).c_str());
  for (const Difference& difference : differences) {
    std::fprintf(stderr, "%s\n", Describe(difference).c_str());
  }
  Require(false);
}

// A tensor's data is null: fine if it has no elements or nobody asks for it.
void Accepted::LaunchWithoutAddress(void* workspace) {
  const aclnnStatus status = Launch(workspace, size_);
  if (status != 0) return RequireRefused(status);
  Require(aclrtSynchronizeStream(nullptr) == 0);
  memory_.RequireOnlyOutputsTouched();
}

// Phase 2 as this slip has it, if that is one that must be refused.
bool Accepted::LaunchedInVain(Slip slip, void* workspace) {
  if (slip == Slip::kNoWorkspace && needed_ > 0) {
    RequireRefused(Launch(nullptr, size_));
  } else if (slip == Slip::kShortWorkspace && needed_ > 0) {
    RequireRefused(Launch(workspace, needed_ - 1));
  } else if (slip == Slip::kStaleStream && plan_ != nullptr) {
    aclrtStream stream = nullptr;
    Require(aclrtCreateStream(&stream) == 0);
    Require(aclrtDestroyStream(stream) == 0);
    RequireRefused(Launch(workspace, size_, stream));
  } else {
    return false;
  }
  return true;
}

void Accepted::Run(bool compare, Slip slip) {
  if (!Runnable()) {
    Require(aclDestroyAclOpExecutor(handle_) == 0);
    return;
  }
  const auto workspace = std::make_unique<uint8_t[]>(size_);
  if (slip == Slip::kNoAddress) return LaunchWithoutAddress(workspace.get());
  Result<Sample> truth = Internal("nothing to compare with");
  if (compare && Comparable()) {
    truth = ReferenceRun(acl::TheBackend(), plan_->problem(), 1);
    if (truth.ok()) TakeInputsOf(*truth);
  }
  if (LaunchedInVain(slip, workspace.get())) return;
  if (slip == Slip::kRepeated) {
    Require(aclSetAclOpExecutorRepeatable(handle_) == 0);
    Require(Launch(workspace.get(), size_) == 0);
  }
  Require(Launch(workspace.get(), size_) == 0);
  Require(aclrtSynchronizeStream(nullptr) == 0);
  if (slip == Slip::kRepeated) Require(aclDestroyAclOpExecutor(handle_) == 0);
  memory_.RequireOnlyOutputsTouched();
  if (truth.ok()) RequireNear(*truth);
  if (slip == Slip::kTwice) {
    memory_.Remember();
    RequireRefused(Launch(workspace.get(), size_));
  }
}

Slip ChooseSlip(Bytes& bytes) {
  const size_t choice = bytes.Next() % kSlipChoices;
  return static_cast<Slip>(std::min(choice, static_cast<size_t>(Slip::kNone)));
}

}  // namespace

OperatorTarget::OperatorTarget(bool (*belongs)(std::string_view),
                               OperatorCall (*random)(uint64_t))
    : random_(random) {
  for (const OperatorCall& call : AllOperatorCalls()) {
    if (belongs(call.name)) plain_.push_back(call);
  }
}

const OperatorCall& OperatorTarget::Start(uint8_t choice) {
  if (choice < plain_.size()) return plain_[choice];
  if (random_ == nullptr) return plain_[choice % plain_.size()];
  auto made = made_.find(choice);
  if (made == made_.end()) {
    made = made_.emplace(choice, random_(choice)).first;
  }
  return made->second;
}

int OperatorTarget::Run(const uint8_t* data, size_t size) {
  static const aclError device = aclrtSetDevice(0);
  Require(device == 0);
  Bytes bytes(data, size);
  const Slip slip = ChooseSlip(bytes);
  OperatorCall call = Start(bytes.Next());
  const bool compare = bytes.Below(2) == 0;
  for (size_t n = bytes.Below(6); n > 0; --n) Change(bytes, call);
  CallMemory memory(bytes, call);
  if (std::getenv("FLASHACL_FUZZ_SHOW") != nullptr) {
    std::fprintf(stderr, "%s\n", ToString(call).c_str());
  }
  if (slip == Slip::kNoAddress) {
    call.tensors[bytes.Below(call.tensors.size())].data = nullptr;
  }

  aclGetRecentErrMsg();
  constexpr uint64_t kUntouched = 12345;
  uint64_t workspace = kUntouched;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status =
      call.Prepare(slip == Slip::kNoSize ? nullptr : &workspace,
                   slip == Slip::kNoExecutor ? nullptr : &executor);
  memory.RequireUntouched();
  if (status != 0) {
    Require(Documented(status));
    RequireMessage();
    Require(workspace == kUntouched && executor == nullptr);
    return 0;
  }
  Require(executor != nullptr && workspace != kUntouched);
  Accepted(call, memory, workspace, executor).Run(compare, slip);
  return 0;
}

}  // namespace flashacl::testing
