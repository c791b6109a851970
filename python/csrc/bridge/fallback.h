// SPDX-License-Identifier: Apache-2.0
// The boxed kernels that the bridge registers for npu tensors.
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "bridge/operator_info.h"

namespace flashacl::bridge {

// Runs the CPU kernel of an operator on the CPU faces of its npu tensors.
class OnFaces : public c10::OperatorKernel {
 public:
  explicit OnFaces(OperatorInfo& info) : info_(info) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  OperatorInfo& info_;
};

// Runs PyTorch's composition of an operator on the npu tensors as they are.
// `key` is one whose kernel is the composition, for every operator that has no
// CPU kernel: CPU, or AutogradCPU where derivatives come from its parts.
class Composite : public c10::OperatorKernel {
 public:
  Composite(OperatorInfo& info, c10::DispatchKey key)
      : info_(info), key_(key) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  OperatorInfo& info_;
  c10::DispatchKey key_;
};

// The key of a backend that nobody has: its autograd kernels are PyTorch's own
// where the adapter has replaced those of npu, and its kernels are the
// bridge's.
inline constexpr auto kStandIn = c10::BackendComponent::PrivateUse3Bit;
inline constexpr auto kStandInKey = c10::DispatchKey::PrivateUse3;

// Runs PyTorch's own autograd kernel of an operator.
class OwnAutograd : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);
};

}  // namespace flashacl::bridge
