// SPDX-License-Identifier: Apache-2.0
#include "replay/recorded_attention.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "acl/acl.h"
#include "acl/executor.h"
#include "acl/handle.h"
#include "acl/launch.h"
#include "base/str.h"
#include "plan/sequences.h"
#include "replay/entry_point.h"
#include "replay/operands.h"

namespace flashacl::replay {
namespace {

// What a call of attention writes and a check judges.
constexpr Slot kForwardResults[] = {Slot::kOut, Slot::kRowMax, Slot::kRowSum,
                                    Slot::kLse};
constexpr Slot kBackwardResults[] = {
    Slot::kGradQuery,   Slot::kGradKey,  Slot::kGradQueryRope, Slot::kGradValue,
    Slot::kGradKeyRope, Slot::kGradBias, Slot::kGradSink};

bool IsResult(const AttentionProblem& problem, Slot slot) {
  return problem.direction == Direction::kForward
             ? std::ranges::count(kForwardResults, slot) > 0
             : std::ranges::count(kBackwardResults, slot) > 0;
}

Status CheckItRan(const record::Call& call) {
  const auto failed = [&](const record::Answer& answer) {
    return Invalid("{}: the call failed, and has no result: {} {}",
                   call.operation, answer.status, answer.message);
  };
  if (call.plan.status != 0) return failed(call.plan);
  if (!call.launch.has_value()) {
    return Invalid("{}: the call was planned and never run", call.operation);
  }
  if (call.launch->status != 0) return failed(*call.launch);
  return {};
}

// The executor of the call, made again of `operands`.
Result<std::shared_ptr<acl::Executor>> Plan(const record::Call& call,
                                            const Operands& operands) {
  const Result<const EntryPoint*> entry = FindEntryPoint(call);
  if (!entry.ok()) return entry.status();
  uint64_t workspace_bytes = 0;
  aclOpExecutor* handle = nullptr;
  const int32_t status =
      (*entry)->plan(operands.values(), &workspace_bytes, &handle);
  if (status != 0) {
    return Invalid("{}: it cannot be planned again: {} {}", call.operation,
                   status, RecentError());
  }
  std::shared_ptr<acl::Executor> executor = acl::Take<acl::Executor>(handle);
  if (executor == nullptr || executor->plan == nullptr) {
    return Unsupported("{}: it is no attention, and is not checked",
                       call.operation);
  }
  return executor;
}

// Moves addresses from the operands' device memory to bytes of its own.
class Mover {
 public:
  Mover(const record::Reader& reader, std::vector<Operand>& operands,
        RecordedAttention& to)
      : reader_(reader), to_(to) {
    for (Operand& one : operands) {
      places_.push_back({&one, one.before.size(), nullptr});
    }
  }

  Status Move() {
    for (size_t n = 0; n < kSlots; ++n) {
      const auto slot = static_cast<Slot>(n);
      std::byte*& at = to_.bindings[slot];
      if (at == nullptr) continue;
      FLASHACL_RETURN_IF_ERROR(MoveSlot(slot, at));
    }
    for (auto* const list :
         {&to_.bindings.key_list, &to_.bindings.value_list}) {
      for (std::byte*& at : *list) at = Before(at);
    }
    return {};
  }

 private:
  // An operand's bytes before the run, once they are moved.
  struct Place {
    Operand* operand;
    size_t bytes;
    std::byte* moved;
  };

  // The operand with an address; one without bytes has none.
  Place* Find(const std::byte* at) {
    for (Place& one : places_) {
      const std::byte* const first = one.operand->first;
      if (at >= first && at < first + one.bytes) return &one;
    }
    return nullptr;
  }

  std::byte* Keep(std::vector<std::byte> bytes) {
    to_.memory.push_back(
        std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
    // Nobody writes there.
    return const_cast<std::byte*>(to_.memory.back()->data());
  }

  // Where its bytes before the run are.
  std::byte* Before(const std::byte* at) {
    Place* const place = Find(at);
    // A tensor that is there, and has nothing to read.
    if (place == nullptr) return Keep(std::vector<std::byte>(1));
    if (place->moved == nullptr) {
      place->moved = Keep(std::move(place->operand->before));
    }
    return place->moved + (at - place->operand->first);
  }

  Status MoveSlot(Slot slot, std::byte*& at) {
    const Place* const place = Find(at);
    const Operand* const operand = place == nullptr ? nullptr : place->operand;
    const bool output = operand != nullptr && operand->tensor->output;
    if (!output || !IsResult(to_.problem, slot)) {
      if (output && !operand->tensor->input) {
        to_.others.push_back(operand->name);
        at = nullptr;
      } else {
        at = Before(at);
      }
      return {};
    }
    const record::Tensor& tensor = *operand->tensor;
    if (!tensor.after.has_value()) {
      return Invalid("{}: its bytes after the run were not recorded",
                     operand->name);
    }
    Result<std::vector<std::byte>> after =
        reader_.ReadTensor(tensor, *tensor.after);
    if (!after.ok()) {
      return Invalid("{}: {}", operand->name, after.status().message());
    }
    const int64_t offset = at - operand->first;
    to_.results.push_back({slot, &tensor, operand->name, offset});
    at = Keep(std::move(*after)) + offset;
    return {};
  }

  const record::Reader& reader_;
  RecordedAttention& to_;
  std::vector<Place> places_;
};

// The lengths of the run in place of tensors that say them.
void ResolveLengths(RecordedAttention& attention) {
  AttentionProblem& problem = attention.problem;
  problem.lengths.sequences = ResolveSequences(problem, attention.bindings);
  problem.lengths.queries = problem.lengths.keys = Lengths::Device::kNone;
  for (const Slot slot : {Slot::kQueryLengths, Slot::kKeyLengths,
                          Slot::kQueryPadding, Slot::kKeyPadding}) {
    problem[slot] = {};
    attention.bindings[slot] = nullptr;
  }
}

}  // namespace

Result<RecordedAttention> ReadAttention(const record::Reader& reader,
                                        const record::Call& call) {
  FLASHACL_RETURN_IF_ERROR(CheckItRan(call));
  if (aclrtSetDevice(0) != 0) return RuntimeFailure("{}", RecentError());
  Result<std::unique_ptr<Operands>> operands = Operands::Make(reader, call);
  if (!operands.ok()) return operands.status();
  const auto executor = Plan(call, **operands);
  if (!executor.ok()) return executor.status();
  RecordedAttention attention;
  attention.problem = (*executor)->plan->problem();
  Result<Bindings> bindings = acl::BindingsOf(**executor);
  if (!bindings.ok()) return bindings.status();
  attention.bindings = std::move(*bindings);
  FLASHACL_RETURN_IF_ERROR(
      Mover(reader, (*operands)->tensors(), attention).Move());
  ResolveLengths(attention);
  return attention;
}

}  // namespace flashacl::replay
