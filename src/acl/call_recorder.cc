// SPDX-License-Identifier: Apache-2.0
#include "acl/call_recorder.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "acl/array.h"
#include "acl/call_contents.h"
#include "acl/call_writer.h"
#include "acl/error.h"
#include "acl/stream.h"
#include "acl/tensor.h"
#include "base/contain.h"
#include "problem/notation.h"

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

// The object of a handle, as a value; NoObject if there is none.
template <typename Object, typename F>
record::Value Described(const void* handle, F&& describe) {
  const std::shared_ptr<Object> object = Find<Object>(handle);
  if (object == nullptr) return record::NoObject();
  return describe(*object);
}

record::Value CopyOfList(const TensorList& list) {
  std::vector<record::TensorOrNot> copies;
  for (const aclTensor* const member : list.members) {
    const std::shared_ptr<Tensor> tensor = Find<Tensor>(member);
    copies.emplace_back();
    if (tensor != nullptr) copies.back() = DescriptionOf(*tensor);
  }
  return copies;
}

record::Value CopyOfScalar(const Scalar& scalar) {
  return record::Scalar{std::string(TypeText(scalar.type)),
                        static_cast<int32_t>(scalar.type), scalar.bytes};
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

record::Parameter Passing::Copy() const {
  constexpr std::array<const char*, 8> kKinds = {
      "tensor", "tensors", "ints", "scalar", "text", "real", "int", "bool"};
  record::Parameter copy{name_, kKinds[static_cast<size_t>(kind_)], {}};
  if (kind_ == kReal) copy.value = real_;
  if (kind_ == kInt) copy.value = integer_;
  if (kind_ == kBool) copy.value = integer_ != 0;
  if (pointer_ == nullptr) return copy;
  switch (kind_) {
    case kTensor:
      copy.value = Described<Tensor>(pointer_, [](const Tensor& of) {
        return record::Value(DescriptionOf(of));
      });
      break;
    case kTensors:
      copy.value = Described<TensorList>(pointer_, CopyOfList);
      break;
    case kInts:
      copy.value = Described<IntArray>(pointer_, [](const IntArray& of) {
        return record::Value(of.values);
      });
      break;
    case kScalar:
      copy.value = Described<Scalar>(pointer_, CopyOfScalar);
      break;
    case kText:
      copy.value = ReadText(static_cast<const char*>(pointer_));
      break;
    case kReal:
    case kInt:
    case kBool:
      break;
  }
  return copy;
}

PlanRecord::PlanRecord(std::string_view operation, std::string_view function,
                       std::span<const Passing> passed) noexcept {
  Quietly([&] {
    std::shared_ptr<const Recording> recording = CurrentRecording();
    if (recording == nullptr || !recording->setting.operators) return;
    const int64_t number = NextCallNumber();
    if (!recording->setting.Wants(operation, number) || recording->over) return;
    auto call = std::make_shared<record::Call>();
    call->number = number;
    call->process = getpid();
    call->time = NowText();
    call->operation = operation;
    call->function = function;
    for (const Passing& one : passed) call->parameters.push_back(one.Copy());
    recording_ = std::move(recording);
    call_ = std::move(call);
  });
}

aclnnStatus PlanRecord::Planned(aclnnStatus status,
                                const uint64_t* workspace_size,
                                aclOpExecutor* const* executor) noexcept {
  if (call_ == nullptr) return status;
  Quietly([&] {
    call_->plan.status = status;
    if (status != 0) {
      call_->plan.message = NewestMessage();
      if (recording_->setting.only_bad_numbers) return;
      WriteCall({recording_, std::move(*call_), {}});
      return;
    }
    call_->workspace_bytes = *workspace_size;
    const std::shared_ptr<Executor> planned = Find<Executor>(*executor);
    if (planned == nullptr) return;
    if (planned->plan != nullptr) {
      call_->problem = ToString(planned->plan->problem());
      call_->implementation = planned->plan->implementation->name;
    } else if (planned->computation != nullptr) {
      call_->problem = planned->computation->Describe();
      call_->implementation = planned->computation->name();
    }
    planned->record = std::move(call_);
  });
  return status;
}

struct RunRecord::State {
  WrittenCall written;
};

RunRecord::RunRecord(std::shared_ptr<const Recording> recording,
                     const Executor& executor, GivenWorkspace workspace)
    : recording_(std::move(recording)),
      planned_(executor.record),
      workspace_(workspace) {
  const std::vector<size_t> parameters = ParametersOf(*executor.op, *planned_);
  for (const Address& address : executor.addresses) {
    if (address.data == nullptr || address.extent_bytes <= 0) continue;
    operands_.push_back({parameters[static_cast<size_t>(address.argument)],
                         static_cast<size_t>(address.member),
                         address.data + address.offset_bytes,
                         address.extent_bytes, address.input, address.output});
  }
}

record::Tensor* RunRecord::TensorOf(record::Call& call,
                                    const Operand& operand) const {
  if (operand.parameter >= call.parameters.size()) return nullptr;
  record::Value& value = call.parameters[operand.parameter].value;
  if (auto* const one = std::get_if<record::Tensor>(&value)) return one;
  auto* const list = std::get_if<std::vector<record::TensorOrNot>>(&value);
  if (list == nullptr || operand.member >= list->size()) return nullptr;
  record::TensorOrNot& member = (*list)[operand.member];
  return member.has_value() ? &*member : nullptr;
}

// Tensors side by side: a thread looks at one more slowly than all threads
// compute what it is for.
void RunRecord::Look(bool before) {
  struct Looking {
    record::Tensor* tensor;
    const std::byte* first;
    std::vector<NewBytes> fresh;
  };
  const RecordingSetting& setting = recording_->setting;
  std::vector<Looking> all;
  for (const Operand& operand : operands_) {
    record::Tensor* const tensor = TensorOf(state_->written.call, operand);
    if (tensor == nullptr || !(before || operand.output)) continue;
    tensor->input = operand.input;
    tensor->output = operand.output;
    tensor->bytes = operand.bytes;
    if (!(before ? setting.inputs : setting.outputs)) continue;
    all.push_back({tensor, operand.first, {}});
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

void RunRecord::Before() noexcept {
  Quietly([&] {
    if (!GoesOn(*recording_)) return;
    state_ = std::make_shared<State>();
    state_->written.recording = recording_;
    state_->written.call = *planned_;
    Look(true);
  });
}

void RunRecord::After(const record::Answer& answer, int32_t stream,
                      double microseconds) noexcept {
  Quietly([&] {
    const std::shared_ptr<State> state = state_;
    if (state == nullptr) return;
    const RecordingSetting& setting = recording_->setting;
    record::Call& call = state->written.call;
    if (setting.only_failed && answer.status == 0) return;
    Look(false);
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
    record::Call call = *executor.record;
    call.launch = record::Answer{
        status, message.empty() ? NewestMessage() : std::string(message)};
    call.given_workspace = workspace.bytes;
    call.has_workspace = workspace.address;
    WriteCall({recording, std::move(call), {}});
  });
}

}  // namespace flashacl::acl
