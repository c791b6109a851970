// SPDX-License-Identifier: Apache-2.0
#include "acl/call_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "acl/call_contents.h"
#include "acl/call_writer.h"
#include "acl/error.h"
#include "acl/stream.h"
#include "base/contain.h"

namespace flashacl::acl {
namespace {

// Recording must not change what a program does: what fails, fails in silence.
template <typename F>
void Quietly(F&& body) noexcept {
  (void)Contain(
      [&] {
        body();
        return 0;
      },
      [](bool) { return 0; });
}

// For each row of an operator's table, which of the parameters that are
// tensors or lists it is: those that this version has, in their order.
std::vector<size_t> ParametersOf(const Operator& op, const record::Call& call) {
  std::vector<size_t> tensors;
  for (size_t n = 0; n < call.parameters.size(); ++n) {
    if (call.parameters[n].kind.starts_with("tensor")) tensors.push_back(n);
  }
  std::vector<size_t> parameters(op.arguments.size(), call.parameters.size());
  size_t next = 0;
  for (size_t row = 0; row < parameters.size(); ++row) {
    if (op.arguments[row].need == Need::kAbsent) continue;
    if (next < tensors.size()) parameters[row] = tensors[next++];
  }
  return parameters;
}

}  // namespace

PlanRecord::PlanRecord(std::string_view operation, std::string_view function,
                       std::span<const Passing> passed) noexcept
    : operation_(operation), function_(function), passed_(passed) {
  Quietly([&] {
    std::shared_ptr<const Recording> recording = CurrentRecording();
    if (recording == nullptr || !recording->setting.operators) return;
    number_ = NextCallNumber();
    if (!recording->setting.Wants(operation, number_) || recording->over) {
      return;
    }
    clock_gettime(CLOCK_REALTIME, &time_);
    recording_ = std::move(recording);
  });
}

PlannedCall PlanRecord::Copy(aclnnStatus status) const {
  PlannedCall call;
  call.number = number_;
  call.process = getpid();
  call.time = time_;
  call.operation = operation_;
  call.function = function_;
  call.answer.status = status;
  if (status != 0) call.answer.message = NewestMessage();
  call.parameters.reserve(passed_.size());
  for (const Passing& one : passed_) call.parameters.push_back(one.Copy());
  return call;
}

aclnnStatus PlanRecord::Planned(aclnnStatus status,
                                const uint64_t* workspace_size,
                                aclOpExecutor* const* executor) noexcept {
  if (recording_ == nullptr) return status;
  Quietly([&] {
    if (status != 0) {
      if (recording_->setting.only_bad_numbers) return;
      WriteCall({recording_, Copy(status).Describe(), {}});
      return;
    }
    const std::shared_ptr<Executor> planned = Find<Executor>(*executor);
    if (planned == nullptr) return;
    auto call = std::make_shared<PlannedCall>(Copy(status));
    call->workspace_bytes = *workspace_size;
    call->plan = planned->plan;
    call->computation = planned->computation;
    planned->record = std::move(call);
  });
  return status;
}

struct RunRecord::State {
  WrittenCall written;
  std::vector<size_t> parameters;  // of each row of the operator's table

  // Null: a list is shorter, or it was no tensor.
  record::Tensor* TensorOf(const Address& operand) {
    const size_t at = parameters[static_cast<size_t>(operand.argument)];
    if (at >= written.call.parameters.size()) return nullptr;
    record::Value& value = written.call.parameters[at].value;
    if (auto* const one = std::get_if<record::Tensor>(&value)) return one;
    auto* const list = std::get_if<std::vector<record::TensorOrNot>>(&value);
    const size_t member = static_cast<size_t>(operand.member);
    if (list == nullptr || member >= list->size()) return nullptr;
    return (*list)[member].has_value() ? &*(*list)[member] : nullptr;
  }
};

RunRecord::RunRecord(std::shared_ptr<const Recording> recording,
                     const Executor& executor, GivenWorkspace workspace)
    : recording_(std::move(recording)),
      planned_(executor.record),
      op_(executor.op),
      workspace_(workspace) {
  operands_.reserve(executor.addresses.size());
  for (const Address& address : executor.addresses) {
    if (address.data == nullptr || address.extent_bytes <= 0) continue;
    operands_.push_back(address);
  }
}

bool RunRecord::MayOverwrite(const Address& operand) const {
  if (!operand.input) return false;
  const std::byte* const first = operand.data + operand.offset_bytes;
  return std::any_of(
      operands_.begin(), operands_.end(), [&](const Address& other) {
        const std::byte* const at = other.data + other.offset_bytes;
        return other.output && at < first + operand.extent_bytes &&
               first < at + other.extent_bytes;
      });
}

bool RunRecord::WaitsForFailure() const {
  return recording_->setting.only_failed &&
         std::none_of(
             operands_.begin(), operands_.end(),
             [this](const Address& operand) { return MayOverwrite(operand); });
}

// Tensors side by side: a thread looks at one more slowly than all threads
// compute what it is for.
template <typename F>
void RunRecord::Look(bool before, F&& wanted) {
  struct Looking {
    record::Tensor* tensor;
    const std::byte* first;
    std::vector<NewBytes> fresh;
  };
  const RecordingSetting& setting = recording_->setting;
  std::vector<Looking> all;
  for (const Address& operand : operands_) {
    record::Tensor* const tensor = state_->TensorOf(operand);
    if (tensor == nullptr || !wanted(operand)) continue;
    tensor->input = operand.input;
    tensor->output = operand.output;
    tensor->bytes = operand.extent_bytes;
    if (!(before ? setting.inputs : setting.outputs)) continue;
    all.push_back({tensor, operand.data + operand.offset_bytes, {}});
  }
  const auto look = [&](int64_t n) {
    Quietly([&] {
      Looking& one = all[static_cast<size_t>(n)];
      LookInto(recording_, *one.tensor, one.first,
               before ? one.tensor->before : one.tensor->after, one.fresh);
    });
  };
  (void)QueueOfThisStream().OnHost([&](Workers& workers) -> Status {
    workers.ForEach(static_cast<int64_t>(all.size()), look);
    return {};
  });
  for (Looking& one : all) {
    for (NewBytes& bytes : one.fresh) {
      state_->written.tensors.push_back(std::move(bytes));
    }
  }
}

void RunRecord::Begin() {
  state_ = std::make_shared<State>();
  state_->written.recording = recording_;
  state_->written.call = planned_->Describe();
  state_->parameters = ParametersOf(*op_, state_->written.call);
}

void RunRecord::Before() noexcept {
  if (WaitsForFailure()) return;
  Quietly([&] {
    if (!GoesOn(*recording_)) return;
    Begin();
    const bool all = !recording_->setting.only_failed;
    Look(true,
         [&](const Address& operand) { return all || MayOverwrite(operand); });
  });
}

void RunRecord::After(const record::Answer& answer, int32_t stream,
                      double microseconds) noexcept {
  const RecordingSetting& setting = recording_->setting;
  if (setting.only_failed && answer.status == 0) return;
  Quietly([&] {
    if (setting.only_failed) {
      if (!GoesOn(*recording_)) return;
      if (state_ == nullptr) Begin();
      // Nobody has written to these; outputs are as the failure left them.
      Look(true,
           [this](const Address& operand) { return !MayOverwrite(operand); });
    }
    const std::shared_ptr<State> state = state_;
    if (state == nullptr) return;
    Look(false, [](const Address& operand) { return operand.output; });
    record::Call& call = state->written.call;
    if (setting.only_bad_numbers && BadNumbers(call) == 0) return;
    call.launch = answer;
    call.given_workspace = workspace_.bytes;
    call.has_workspace = workspace_.address;
    call.stream = stream;
    call.microseconds = microseconds;
    WriteCall(std::move(state->written));
  });
  state_ = nullptr;
}

std::shared_ptr<RunRecord> RecordRun(const Executor& executor,
                                     GivenWorkspace workspace) {
  if (executor.record == nullptr) return nullptr;
  std::shared_ptr<const Recording> recording = CurrentRecording();
  if (recording == nullptr) return nullptr;
  return std::make_shared<RunRecord>(std::move(recording), executor, workspace);
}

void RecordFailedLaunch(const Executor& executor, GivenWorkspace workspace,
                        aclnnStatus status, std::string_view message) noexcept {
  if (executor.record == nullptr) return;
  Quietly([&] {
    const std::shared_ptr<const Recording> recording = CurrentRecording();
    if (recording == nullptr || recording->setting.only_bad_numbers) return;
    record::Call call = executor.record->Describe();
    call.launch = record::Answer{
        status, message.empty() ? NewestMessage() : std::string(message)};
    call.given_workspace = workspace.bytes;
    call.has_workspace = workspace.address;
    WriteCall({recording, std::move(call), {}});
  });
}

}  // namespace flashacl::acl
