// SPDX-License-Identifier: Apache-2.0
#include "bridge/install.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "bridge/allocation.h"
#include "bridge/attention.h"
#include "bridge/fallback.h"
#include "bridge/fused_attention.h"
#include "bridge/keeping.h"
#include "bridge/kept_calls.h"
#include "bridge/kernel_memory.h"
#include "bridge/operator_info.h"

namespace flashacl::bridge {
namespace {

using c10::DispatchKey;

// What stays the adapter's: memory and storages, which it counts and labels;
// attention and dropout, whose kernels FlashACL has.
const std::unordered_set<std::string>& Kept() {
  static const auto& kept = *new std::unordered_set<std::string>{
      "aten::resize_",
      "aten::set_.source_Storage",
      "aten::set_.source_Storage_storage_offset",
      "aten::set_.source_Tensor",
      "aten::set_",
      "aten::record_stream",
      "aten::_pin_memory",
      "aten::is_pinned",
      "aten::_lazy_clone",
      "aten::_fused_sdp_choice",
      "aten::_scaled_dot_product_fused_attention_overrideable",
      "aten::_scaled_dot_product_fused_attention_overrideable_backward",
      "aten::native_dropout",
      "aten::native_dropout_backward"};
  return kept;
}

const std::unordered_set<std::string>& Copies() {
  static const auto& copies = *new std::unordered_set<std::string>{
      "aten::copy_", "aten::_foreach_copy_"};
  return copies;
}

bool HasDevice(const c10::OperatorHandle& op) {
  for (const auto& argument : op.schema().arguments()) {
    if (argument.type()->isSubtypeOf(
            *c10::OptionalType::create(c10::DeviceObjType::get()))) {
      return true;
    }
  }
  return false;
}

// Whether a result shares an argument's memory, and is not that argument after
// it was written to.
bool IsView(const c10::OperatorHandle& op) {
  for (const auto& result : op.schema().returns()) {
    const auto* alias = result.alias_info();
    if (alias != nullptr && !alias->isWrite()) return true;
  }
  return false;
}

bool IsComposite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
}

bool IsExplicit(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(
             DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// A library of registrations that is never undone.
torch::Library& Registrations(DispatchKey key) {
  const auto make = [](DispatchKey one) {
    return new torch::Library(torch::Library::IMPL, "aten", one, __FILE__,
                              __LINE__);
  };
  static torch::Library& npu = *make(DispatchKey::PrivateUse1);
  static torch::Library& autograd = *make(DispatchKey::AutogradPrivateUse1);
  static torch::Library& stand_in = *make(kStandInKey);
  if (key == DispatchKey::PrivateUse1) return npu;
  return key == DispatchKey::AutogradPrivateUse1 ? autograd : stand_in;
}

template <typename Kernel, typename... Args>
void Register(DispatchKey key, const c10::OperatorHandle& op, Args&&... args) {
  Registrations(key).impl(
      c10::toString(op.operator_name()).c_str(),
      torch::CppFunction::makeFromBoxedFunctor(
          std::make_unique<Kernel>(std::forward<Args>(args)...)));
}

// Derivatives: those of the parts, or PyTorch's where the adapter has put its
// own, which call operators that are not here.
void RegisterAutograd(const c10::OperatorHandle& op, OperatorInfo& info) {
  if (info.way == Way::kComposite && IsComposite(op)) {
    Register<Composite>(DispatchKey::AutogradPrivateUse1, op, info,
                        DispatchKey::AutogradCPU);
    return;
  }
  if (!op.hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1)) return;
  info.way = Way::kAutograd;
  Register<OwnAutograd>(DispatchKey::AutogradPrivateUse1, op);
  Register<OnFaces>(kStandInKey, op, info);
}

void RegisterOne(const c10::OperatorHandle& op, Way way) {
  OperatorInfo& info = MakeOperatorInfo(op, way);
  if (way == Way::kComposite) {
    Register<Composite>(DispatchKey::PrivateUse1, op, info, DispatchKey::CPU);
  } else {
    Register<OnFaces>(DispatchKey::PrivateUse1, op, info);
  }
  RegisterAutograd(op, info);
}

void InstallOne(const c10::OperatorHandle& op) {
  const std::string name = c10::toString(op.operator_name());
  if (name.rfind("aten::", 0) != 0 || Kept().count(name) > 0) return;
  if (RegisterAllocation(Registrations(DispatchKey::PrivateUse1), name)) return;
  if (name == "aten::scaled_dot_product_attention") {
    return RegisterAttention(Registrations(DispatchKey::PrivateUse1),
                             Registrations(DispatchKey::AutogradPrivateUse1));
  }
  if (Copies().count(name) > 0) return RegisterOne(op, Way::kCopy);
  const bool adapter = op.hasKernelForDispatchKey(DispatchKey::PrivateUse1);
  // A composition that the adapter has put CPU kernels over, for no npu tensor.
  if (!adapter && IsComposite(op) &&
      !op.hasKernelForDispatchKey(DispatchKey::Autograd)) {
    return;
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CPU)) {
    if (!adapter || !IsView(op)) RegisterOne(op, Way::kOnFaces);
    return;
  }
  // Without the adapter's kernel PyTorch composes these by itself.
  if (!adapter) return;
  if (IsComposite(op)) {
    RegisterOne(op, Way::kComposite);
  } else if (IsExplicit(op)) {
    const bool composed = IsView(op) || HasDevice(op);
    RegisterOne(op, composed ? Way::kComposite : Way::kOnFaces);
  }
}

}  // namespace

void Install() {
  static bool installed = false;
  TORCH_CHECK(!installed, "the bridge is installed already");
  installed = true;
  InstallKernelMemory();
  InstallKeeping();
  InstallKeptCalls();
  // PyTorch warns of every kernel that replaces another.
  class Silent : public c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (op.has_value()) InstallOne(*op);
  }
  RegisterFusedAttention();
  RegisterFusedGradient();
  RegisterFusedInference();
}

}  // namespace flashacl::bridge
