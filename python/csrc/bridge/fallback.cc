// SPDX-License-Identifier: Apache-2.0
#include "bridge/fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <optional>
#include <utility>

#include "bridge/faces.h"
#include "bridge/kernel_memory.h"
#include "bridge/queue.h"
#include "bridge/random.h"

namespace flashacl::bridge {
namespace {

// One call: its arguments become faces, its results npu tensors.
class Call {
 public:
  explicit Call(const OperatorInfo& info) : info_(info) {}

  void ToFaces(c10::ArrayRef<c10::Argument> arguments,
               torch::jit::Stack* stack);
  void CheckDevices() const;
  c10::Device device();
  void BackFromFaces(size_t results, torch::jit::Stack* stack);

 private:
  void Take(c10::IValue& value, size_t argument);
  at::Tensor TakeTensor(const at::Tensor& tensor, size_t argument);
  at::Tensor Back(at::Tensor tensor);
  void BackOne(c10::IValue& value);

  const OperatorInfo& info_;
  Faces faces_;
  std::optional<c10::Device> device_;
  std::optional<c10::Device> other_;     // a device that may not be beside npu
  c10::SmallVector<at::Tensor, 2> cpu_;  // arguments that stay what they are
};

at::Tensor Call::TakeTensor(const at::Tensor& tensor, size_t argument) {
  if (!tensor.defined()) return tensor;
  const c10::Device device = tensor.device();
  if (device.type() == kNpu) {
    if (!device_.has_value()) {
      device_ = device;
    } else if (*device_ != device) {
      other_ = device;
    }
    return faces_.Face(tensor, info_.written[argument]);
  }
  // A number on the CPU may stand beside npu tensors, but not be written to.
  const bool number = tensor.dim() == 0 && !info_.written[argument];
  const bool taken = info_.all_take_cpu || info_.takes_cpu[argument] || number;
  if (!taken || !device.is_cpu()) other_ = device;
  cpu_.push_back(tensor);
  return tensor;
}

void Call::Take(c10::IValue& value, size_t argument) {
  if (value.isTensor()) {
    const at::Tensor tensor = std::move(value).toTensor();
    value = TakeTensor(tensor, argument);
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> faces;
    const auto tensors = value.toTensorVector();
    faces.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) {
      faces.push_back(TakeTensor(tensor, argument));
    }
    value = std::move(faces);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> faces;
    const auto tensors = value.toOptionalTensorVector();
    faces.reserve(tensors.size());
    for (const auto& tensor : tensors) {
      faces.push_back(tensor.has_value()
                          ? std::optional(TakeTensor(*tensor, argument))
                          : std::nullopt);
    }
    value = std::move(faces);
  } else if (value.isDevice() && value.toDevice().type() == kNpu) {
    const c10::Device device = value.toDevice();
    if (!device_.has_value()) {
      device_ =
          device.has_index() ? device : c10::Device(kNpu, CurrentDevice());
    }
    value = c10::Device(c10::kCPU);
  }
}

void Call::ToFaces(c10::ArrayRef<c10::Argument> arguments,
                   torch::jit::Stack* stack) {
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) Take((*stack)[first + i], i);
}

void Call::CheckDevices() const {
  TORCH_CHECK(!other_.has_value() || !device_.has_value(),
              "Expected all tensors to be on the same device, but found at "
              "least two devices, ",
              *device_, " and ", *other_, "!");
}

c10::Device Call::device() {
  if (!device_.has_value()) device_ = c10::Device(kNpu, CurrentDevice());
  return *device_;
}

at::Tensor Call::Back(at::Tensor tensor) {
  for (const at::Tensor& argument : cpu_) {
    if (argument.is_same(tensor)) return tensor;
  }
  return faces_.Back(std::move(tensor), *device_);
}

void Call::BackOne(c10::IValue& value) {
  if (value.isTensor()) {
    value = Back(std::move(value).toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> tensors;
    auto faces = value.toTensorVector();
    value = c10::IValue();  // else its tensors have two owners
    tensors.reserve(faces.size());
    for (at::Tensor& face : faces) tensors.push_back(Back(std::move(face)));
    value = std::move(tensors);
  }
}

void Call::BackFromFaces(size_t results, torch::jit::Stack* stack) {
  for (size_t i = stack->size() - results; i < stack->size(); ++i) {
    BackOne((*stack)[i]);
  }
  faces_.WriteBack();
}

// Runs it with random numbers of the device's generator.
void CallRandom(const OperatorInfo& info, const c10::OperatorHandle& op,
                c10::Device device, torch::jit::Stack* stack) {
  constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
  if (info.generator < 0) {
    const DefaultGeneratorGuard guard(DrawGenerator(std::nullopt, device));
    op.redispatchBoxed(kCpu, stack);
    return;
  }
  const size_t arguments = op.schema().arguments().size();
  c10::IValue& value =
      (*stack)[stack->size() - arguments + static_cast<size_t>(info.generator)];
  value = DrawGenerator(value.toOptional<at::Generator>(), device);
  op.redispatchBoxed(kCpu, stack);
}

}  // namespace

void OnFaces::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet,
                         torch::jit::Stack* stack) {
  info_.calls.fetch_add(1, std::memory_order_relaxed);
  const c10::FunctionSchema& schema = op.schema();
  Call call(info_);
  call.ToFaces(schema.arguments(), stack);
  call.CheckDevices();
  WaitForStream(call.device().index());
  try {
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::DeviceGuard on(call.device());
    const KernelMemoryGuard memory;
    if (info_.random) {
      CallRandom(info_, op, call.device(), stack);
    } else {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    }
    call.BackFromFaces(schema.returns().size(), stack);
  } catch (c10::Error& error) {
    error.add_context("by the CPU kernel of " + info_.name +
                      ", on tensors of " + call.device().str());
    throw;
  }
}

void Composite::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet,
                           torch::jit::Stack* stack) {
  info_.calls.fetch_add(1, std::memory_order_relaxed);
  op.redispatchBoxed(c10::DispatchKeySet(key_), stack);
}

void OwnAutograd::operator()(const c10::OperatorHandle& op,
                             c10::DispatchKeySet keys,
                             torch::jit::Stack* stack) {
  const auto moved =
      keys.remove_backend(c10::BackendComponent::PrivateUse1Bit) |
      c10::DispatchKeySet(kStandIn);
  op.redispatchBoxed(moved, stack);
}

}  // namespace flashacl::bridge
