// SPDX-License-Identifier: Apache-2.0
#include "acl/planned_call.h"

#include <array>
#include <utility>

#include "acl/arguments.h"
#include "acl/call_contents.h"
#include "acl/handle.h"
#include "problem/notation.h"

namespace flashacl::acl {
namespace {

// The object of a handle, as `copy` makes a value of it; NoObject if there is
// none.
template <typename Object, typename F>
void CopyObject(const void* handle, PassedValue& passed, F&& copy) {
  std::shared_ptr<Object> object = Find<Object>(handle);
  if (object == nullptr) {
    passed.value = record::NoObject();
  } else {
    passed.value = copy(std::move(object));
  }
}

std::vector<std::optional<Tensor>> MembersOf(const TensorList& list) {
  std::vector<std::optional<Tensor>> members;
  members.reserve(list.members.size());
  for (const aclTensor* const member : list.members) {
    const std::shared_ptr<Tensor> tensor = Find<Tensor>(member);
    members.emplace_back();
    if (tensor != nullptr) members.back() = *tensor;
  }
  return members;
}

struct Describer {
  template <typename Same>
  record::Value operator()(const Same& value) const {
    return value;
  }
  record::Value operator()(const Tensor& tensor) const {
    return DescriptionOf(tensor);
  }
  record::Value operator()(
      const std::vector<std::optional<Tensor>>& list) const {
    std::vector<record::TensorOrNot> members;
    for (const std::optional<Tensor>& tensor : list) {
      members.emplace_back();
      if (tensor.has_value()) members.back() = DescriptionOf(*tensor);
    }
    return members;
  }
  record::Value operator()(const std::shared_ptr<const IntArray>& of) const {
    return of->values;
  }
  record::Value operator()(const std::shared_ptr<const Scalar>& of) const {
    return record::Scalar{std::string(TypeText(of->type)),
                          static_cast<int32_t>(of->type), of->bytes};
  }
};

}  // namespace

PassedValue Passing::Copy() const {
  PassedValue copy{name_, kind_, {}};
  if (kind_ == PassedKind::kReal) copy.value = real_;
  if (kind_ == PassedKind::kInt) copy.value = integer_;
  if (kind_ == PassedKind::kBool) copy.value = integer_ != 0;
  if (pointer_ == nullptr) return copy;
  switch (kind_) {
    case PassedKind::kTensor:
      CopyObject<Tensor>(pointer_, copy, [](auto tensor) { return *tensor; });
      break;
    case PassedKind::kTensors:
      CopyObject<TensorList>(pointer_, copy,
                             [](auto list) { return MembersOf(*list); });
      break;
    case PassedKind::kInts:
      CopyObject<IntArray>(pointer_, copy, [](auto array) {
        return std::shared_ptr<const IntArray>(std::move(array));
      });
      break;
    case PassedKind::kScalar:
      CopyObject<Scalar>(pointer_, copy, [](auto scalar) {
        return std::shared_ptr<const Scalar>(std::move(scalar));
      });
      break;
    case PassedKind::kText:
      copy.value = ReadText(static_cast<const char*>(pointer_));
      break;
    case PassedKind::kReal:
    case PassedKind::kInt:
    case PassedKind::kBool:
      break;
  }
  return copy;
}

record::Parameter PassedValue::Describe() const {
  constexpr std::array<const char*, 8> kKinds = {
      "tensor", "tensors", "ints", "scalar", "text", "real", "int", "bool"};
  return {name, kKinds[static_cast<size_t>(kind)],
          std::visit(Describer(), value)};
}

record::Call PlannedCall::Describe() const {
  record::Call call;
  call.number = number;
  call.process = process;
  call.time = TimeText(time);
  call.operation = operation;
  call.function = function;
  for (const PassedValue& one : parameters) {
    call.parameters.push_back(one.Describe());
  }
  if (plan != nullptr) {
    call.problem = ToString(plan->problem());
    call.implementation = plan->implementation->name;
  } else if (computation != nullptr) {
    call.problem = computation->Describe();
    call.implementation = computation->name();
  }
  call.plan = answer;
  call.workspace_bytes = workspace_bytes;
  return call;
}

}  // namespace flashacl::acl
