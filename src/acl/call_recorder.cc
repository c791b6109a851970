// SPDX-License-Identifier: Apache-2.0
#include "acl/call_recorder.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <optional>
#include <utility>

#include "acl/array.h"
#include "acl/backend.h"
#include "acl/call_writer.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/memory.h"
#include "acl/say.h"
#include "acl/tensor.h"
#include "base/contain.h"
#include "base/fork.h"
#include "base/str.h"
#include "problem/notation.h"
#include "record/digest.h"
#include "record/directory.h"

namespace flashacl::acl {
namespace {

using record::Contents;
using record::ElementType;

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

const record::Setting& TheSetting() { return *TheEnvironment().record; }

int64_t NextNumber() {
  static PerProcess<std::atomic<int64_t>>& calls =
      *new PerProcess<std::atomic<int64_t>>;
  return (*calls).fetch_add(1) + 1;
}

std::string Now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  return Str("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
             now.tv_nsec / 1000);
}

record::Tensor CopyOf(const Tensor& tensor) {
  const auto first = [&](const std::array<int64_t, kMaxRank>& of) {
    return std::vector<int64_t>(of.begin(),
                                of.begin() + static_cast<int>(tensor.rank));
  };
  record::Tensor copy;
  const std::string_view type = TypeText(tensor.acl_dtype);
  copy.type = type.find(' ') == std::string_view::npos ? type : "";
  copy.type_number = static_cast<int32_t>(tensor.acl_dtype);
  copy.format = static_cast<int32_t>(tensor.format);
  copy.shape = first(tensor.dims);
  copy.strides = first(tensor.strides);
  copy.offset = tensor.offset;
  if (tensor.storage_dims != nullptr) copy.storage = *tensor.storage_dims;
  copy.has_data = tensor.data != nullptr;
  return copy;
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
    if (tensor != nullptr) copies.back() = CopyOf(*tensor);
  }
  return copies;
}

record::Value CopyOfScalar(const Scalar& scalar) {
  return record::Scalar{std::string(TypeText(scalar.type)),
                        static_cast<int32_t>(scalar.type), scalar.bytes};
}

// Device memory through its backend; memory of the program's own may not be
// there at all, which the system finds out.
bool ReadBytes(const std::byte* from, std::span<std::byte> to) {
  Block block;
  if (FindBlock(from, &block) &&
      static_cast<size_t>(from - block.base) + to.size() <= block.reserved) {
    DeviceMemory().Copy(to.data(), from, to.size());
    return true;
  }
  const iovec here{to.data(), to.size()};
  const iovec there{const_cast<std::byte*>(from), to.size()};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) ==
         static_cast<ssize_t>(to.size());
}

// Reads bytes in parts that stay in a cache; false if they are not all there.
template <typename F>
bool ForParts(const std::byte* first, size_t bytes, F&& body) {
  constexpr size_t kPart = size_t{256} << 10;
  std::vector<std::byte> part(std::min(bytes, kPart));
  for (size_t done = 0; done < bytes; done += part.size()) {
    part.resize(std::min(part.size(), bytes - done));
    if (!ReadBytes(first + done, part)) return false;
    body(std::span<const std::byte>(part));
  }
  return true;
}

struct Looked {
  Contents contents;
  std::optional<NewBytes> fresh;  // nobody has stored them yet
};

record::Layout LayoutOf(const ElementType& type, const record::Tensor& tensor) {
  return {type.dtype, tensor.shape, tensor.strides};
}

// Digest and statistics of the bytes at `first`; `keep`: they are to be
// stored. The digest is of what is stored, whoever writes there meanwhile.
Looked LookAt(const ElementType& type, const record::Tensor& tensor,
              const std::byte* first, bool keep) {
  Looked looked;
  const auto bytes = static_cast<size_t>(tensor.bytes);
  record::Digest digest = record::DigestFor(type);
  record::StatisticsSum sum(type.dtype);
  const bool dense = record::IsDense(LayoutOf(type, tensor));
  const bool read = ForParts(first, bytes, [&](auto part) {
    digest.Add(part);
    if (dense) sum.Add(part);
  });
  if (!read) return looked;
  looked.contents.digest = digest.Text();
  looked.contents.statistics = sum.Get();
  looked.contents.kept = keep;
  const bool known = !keep || IsWritten(looked.contents.digest);
  if (known && dense) return looked;
  NewBytes fresh{&type, {}, std::vector<std::byte>(bytes)};
  if (!ReadBytes(first, fresh.bytes)) return Looked();
  looked.contents.statistics =
      record::StatisticsOf(fresh.bytes, LayoutOf(type, tensor));
  if (known) return looked;
  record::Digest copied = record::DigestFor(type);
  copied.Add(fresh.bytes);
  fresh.digest = looked.contents.digest = copied.Text();
  looked.fresh = std::move(fresh);
  return looked;
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

bool WantsFailures() { return !TheSetting().only_bad_numbers; }

}  // namespace

bool RecordsCalls() noexcept {
  enum State : int { kUndecided, kOff, kOn };
  static std::atomic<int> state{kUndecided};
  const int now = state.load(std::memory_order_relaxed);
  if (now != kUndecided) return now == kOn;
  const bool asked = Contain([] { return TheEnvironment().record.has_value(); },
                             [](bool) { return false; });
  state.store(asked ? kOn : kOff);
  return asked;
}

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
      copy.value = Described<Tensor>(
          pointer_, [](const Tensor& of) { return record::Value(CopyOf(of)); });
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
    const int64_t number = NextNumber();
    if (!TheSetting().Wants(operation, number) || RecordIsOver()) return;
    auto call = std::make_shared<record::Call>();
    call->number = number;
    call->process = getpid();
    call->time = Now();
    call->operation = operation;
    call->function = function;
    for (const Passing& one : passed) call->parameters.push_back(one.Copy());
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
      if (WantsFailures()) WriteCall({std::move(*call_), {}});
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

RunRecord::RunRecord(std::shared_ptr<const record::Call> planned,
                     const Executor& executor, GivenWorkspace workspace)
    : planned_(std::move(planned)), workspace_(workspace) {
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

void RunRecord::Look(bool before) {
  const bool keep = !TheSetting().statistics_only;
  for (const Operand& operand : operands_) {
    record::Tensor* const tensor = TensorOf(state_->written.call, operand);
    if (tensor == nullptr || !(before || operand.output)) continue;
    const ElementType* const type = record::FindElementType(tensor->type);
    if (type == nullptr) continue;
    tensor->input = operand.input;
    tensor->output = operand.output;
    tensor->bytes = operand.bytes;
    Looked looked = LookAt(*type, *tensor, operand.first, keep);
    (before ? tensor->before : tensor->after) = std::move(looked.contents);
    if (!looked.fresh.has_value()) continue;
    state_->written.tensors.push_back(*std::move(looked.fresh));
  }
}

void RunRecord::Before() noexcept {
  Quietly([&] {
    if (RecordIsOver()) return;
    state_ = std::make_shared<State>();
    state_->written.call = *planned_;
    Look(true);
  });
}

void RunRecord::After(const record::Answer& answer, int32_t stream,
                      double microseconds) noexcept {
  Quietly([&] {
    const std::shared_ptr<State> state = state_;
    if (state == nullptr) return;
    record::Call& call = state->written.call;
    if (TheSetting().only_failed && answer.status == 0) return;
    Look(false);
    if (TheSetting().only_bad_numbers && BadNumbers(call) == 0) return;
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
  return std::make_shared<RunRecord>(executor.record, executor, workspace);
}

void RecordFailedLaunch(const Executor& executor, GivenWorkspace workspace,
                        aclnnStatus status, std::string_view message) noexcept {
  if (executor.record == nullptr || !WantsFailures()) return;
  Quietly([&] {
    record::Call call = *executor.record;
    call.launch = record::Answer{
        status, message.empty() ? NewestMessage() : std::string(message)};
    call.given_workspace = workspace.bytes;
    call.has_workspace = workspace.address;
    WriteCall({std::move(call), {}});
  });
}

}  // namespace flashacl::acl
