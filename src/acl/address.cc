// SPDX-License-Identifier: Apache-2.0
// Repeatable executors: running a plan again at other addresses. CANN aclnn
// base API, aclSetAclOpExecutorRepeatable and the address setters.
#include <cstddef>
#include <functional>

#include "acl/array.h"
#include "acl/destroy.h"
#include "acl/error.h"
#include "acl/executor.h"
#include "acl/tensor.h"

namespace flashacl::acl {
namespace {

constexpr aclnnStatus kInnerNull = 561103;

enum class Side { kInputs, kOutputs, kBoth };

// Of an address, or of a row of the operator's table.
bool On(Side side, bool input, bool output) {
  return side == Side::kBoth || (side == Side::kOutputs ? output : input);
}

aclnnStatus InnerNull(const char* text) {
  return FailFixed(kInnerNull, Title::kAclnnParameter, text);
}

// The entry a call means: the one at `index` if it is this handle's, else the
// handle's own, else the one at `index`. Null if there is none, or if nothing
// was passed there in phase 1.
Address* FindAddress(Executor& executor, Side side, size_t index,
                     const aclTensor* handle) {
  Address* at_index = nullptr;
  Address* of_handle = nullptr;
  size_t position = 0;
  for (Address& address : executor.addresses) {
    if (!On(side, address.input, address.output)) continue;
    if (position++ == index) at_index = &address;
    if (of_handle == nullptr && address.handle == handle) of_handle = &address;
  }
  if (at_index != nullptr && at_index->handle == handle) return at_index;
  Address* found = of_handle != nullptr ? of_handle : at_index;
  return found == nullptr || found->handle == nullptr ? nullptr : found;
}

// The member of the list that is parameter `ir_index` of its side.
Address* FindMember(Executor& executor, Side side, size_t ir_index,
                    size_t relative_index) {
  size_t parameter = 0;
  const std::span<const Argument> table = executor.op->arguments;
  for (size_t row = 0; row < table.size(); ++row) {
    if (table[row].need == Need::kAbsent) continue;
    if (!On(side, table[row].input(), table[row].output)) continue;
    if (parameter++ != ir_index || !table[row].list) continue;
    for (Address& address : executor.addresses) {
      if (static_cast<size_t>(address.argument) != row ||
          static_cast<size_t>(address.member) != relative_index) {
        continue;
      }
      return address.handle == nullptr ? nullptr : &address;
    }
  }
  return nullptr;
}

void Move(Address& address, void* to) {
  address.data = static_cast<std::byte*>(to);
  if (const std::shared_ptr<Tensor> tensor = Find<Tensor>(address.handle)) {
    tensor->data = address.data;
  }
}

// What a call asks for, as messages tell of it.
struct Asked {
  const char* function;
  size_t index;  // among the inputs, the outputs or both
};

// Finds with `find` under the executor's lock, and moves what is found.
aclnnStatus SetAddress(aclOpExecutor* executor, void* addr, const Asked& asked,
                       FunctionRef<Address*(Executor&)> find) {
  return Guard(kParamInvalid, [&]() -> Status {
    const std::shared_ptr<Executor> found = Find<Executor>(executor);
    if (found == nullptr) {
      return Internal("{}: executor is not a live aclOpExecutor{}",
                      asked.function, IfParents<Executor>(executor));
    }
    std::lock_guard lock(found->mutex);
    Address* const address = find(*found);
    if (address == nullptr) {
      return Invalid(
          "{}: index {} is out of range, or no tensor was passed there in "
          "phase one",
          asked.function, asked.index);
    }
    Move(*address, addr);
    return {};
  });
}

aclnnStatus SetOne(aclOpExecutor* executor, size_t index, aclTensor* tensor,
                   void* addr, Side side) {
  if (executor == nullptr) {
    return InnerNull("aclSetTensorAddr: executor cannot be a NULL pointer");
  }
  if (tensor == nullptr) {
    return InnerNull("aclSetTensorAddr: tensor cannot be a NULL pointer");
  }
  return SetAddress(
      executor, addr, {"aclSetTensorAddr", index},
      [&](Executor& of) { return FindAddress(of, side, index, tensor); });
}

aclnnStatus SetMember(aclOpExecutor* executor, size_t ir_index,
                      size_t relative_index, aclTensorList* tensors, void* addr,
                      Side side) {
  if (executor == nullptr) {
    return InnerNull(
        "aclSetDynamicTensorAddr: executor cannot be a NULL pointer");
  }
  if (tensors == nullptr) {
    return InnerNull(
        "aclSetDynamicTensorAddr: tensors cannot be a NULL pointer");
  }
  return SetAddress(executor, addr, {"aclSetDynamicTensorAddr", ir_index},
                    [&](Executor& of) {
                      return FindMember(of, side, ir_index, relative_index);
                    });
}

}  // namespace

}  // namespace flashacl::acl

// Outside the namespace, where the header's declarations are: only then do
// these inherit that they are exported.
using namespace flashacl::acl;
using namespace flashacl;

extern "C" {

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (executor == nullptr) {
    return InnerNull(
        "aclSetAclOpExecutorRepeatable: executor cannot be a NULL pointer");
  }
  return Guard(kParamInvalid, [&]() -> Status {
    const std::shared_ptr<Executor> found = Find<Executor>(executor);
    if (found == nullptr) {
      return Internal(
          "aclSetAclOpExecutorRepeatable: executor is not a live "
          "aclOpExecutor{}",
          IfParents<Executor>(executor));
    }
    found->repeatable = true;
    return {};
  });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (executor == nullptr) {
    return InnerNull(
        "aclDestroyAclOpExecutor: executor cannot be a NULL pointer");
  }
  return Guard(kParamInvalid, [&]() -> Status {
    if (Take<Executor>(executor) != nullptr) return {};
    return Internal(
        "aclDestroyAclOpExecutor: executor is not a live aclOpExecutor{}",
        IfParents<Executor>(executor));
  });
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index,
                                  aclTensor* tensor, void* addr) {
  return SetOne(executor, index, tensor, addr, Side::kInputs);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index,
                                   aclTensor* tensor, void* addr) {
  return SetOne(executor, index, tensor, addr, Side::kOutputs);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index,
                             aclTensor* tensor, void* addr) {
  return SetOne(executor, index, tensor, addr, Side::kBoth);
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor,
                                         size_t irIndex,
                                         const size_t relativeIndex,
                                         aclTensorList* tensors, void* addr) {
  return SetMember(executor, irIndex, relativeIndex, tensors, addr,
                   Side::kInputs);
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor,
                                          size_t irIndex,
                                          const size_t relativeIndex,
                                          aclTensorList* tensors, void* addr) {
  return SetMember(executor, irIndex, relativeIndex, tensors, addr,
                   Side::kOutputs);
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                    const size_t relativeIndex,
                                    aclTensorList* tensors, void* addr) {
  return SetMember(executor, irIndex, relativeIndex, tensors, addr,
                   Side::kBoth);
}

// The same six under their other spelling.

aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index,
                                  aclTensor* tensor, void* addr) {
  return SetOne(executor, index, tensor, addr, Side::kInputs);
}

aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index,
                                   aclTensor* tensor, void* addr) {
  return SetOne(executor, index, tensor, addr, Side::kOutputs);
}

aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index,
                             aclTensor* tensor, void* addr) {
  return SetOne(executor, index, tensor, addr, Side::kBoth);
}

aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor* executor,
                                         size_t irIndex,
                                         const size_t relativeIndex,
                                         aclTensorList* tensors, void* addr) {
  return SetMember(executor, irIndex, relativeIndex, tensors, addr,
                   Side::kInputs);
}

aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor* executor,
                                          size_t irIndex,
                                          const size_t relativeIndex,
                                          aclTensorList* tensors, void* addr) {
  return SetMember(executor, irIndex, relativeIndex, tensors, addr,
                   Side::kOutputs);
}

aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                    const size_t relativeIndex,
                                    aclTensorList* tensors, void* addr) {
  return SetMember(executor, irIndex, relativeIndex, tensors, addr,
                   Side::kBoth);
}

}  // extern "C"
