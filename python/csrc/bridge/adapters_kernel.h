// SPDX-License-Identifier: Apache-2.0
// The adapter's kernel of an operator that the bridge has put one of its own
// over: for calls that the bridge leaves to it.
#pragma once

#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <utility>

#include "bridge/keeping.h"

namespace flashacl::bridge {

template <typename Signature>
class AdaptersKernel;

template <typename Result, typename... Args>
class AdaptersKernel<Result(Args...)> {
 public:
  // Looks the operator's kernel up, once, before the bridge registers its own.
  // False where the operator has other parameters than are known here, or
  // PyTorch does not give its kernel out.
  bool Take(const c10::OperatorHandle& op) {
#if FLASHACL_BRIDGE_KEEPS
    try {
      op.typed<Result(Args...)>();
    } catch (const c10::Error&) {
      return false;
    }
    kernel_.emplace(
        op.getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1));
    return true;
#else
    return false;
#endif
  }

  Result operator()(Args... args) const {
#if FLASHACL_BRIDGE_KEEPS
    torch::jit::Stack stack =
        c10::impl::boxArgs<Args...>(std::forward<Args>(args)...);
    kernel_->callBoxed(kernel_->opHandle(),
                       c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                       &stack);
    return c10::impl::PopResult<Result>::call(stack);
#else
    TORCH_CHECK(false, "no kernel was taken");
#endif
  }

#if FLASHACL_BRIDGE_KEEPS
 private:
  std::optional<c10::SafeKernelFunction> kernel_;
#endif
};

// Registers a kernel over the adapter's of npu::`name`, if there is one with
// the parameters that are known here.
template <typename Signature, typename Function>
void RegisterOver(const char* name, AdaptersKernel<Signature>& adapters,
                  Function function) {
  const auto op = c10::Dispatcher::singleton().findSchema(
      {std::string("npu::") + name, ""});
  if (!op.has_value() ||
      !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) ||
      !adapters.Take(*op)) {
    return;
  }
  static auto& library =
      *new torch::Library(torch::Library::IMPL, "npu",
                          c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library.impl(name, function);
}

}  // namespace flashacl::bridge
