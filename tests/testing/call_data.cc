// SPDX-License-Identifier: Apache-2.0
// A fixture's call as data.
#include <algorithm>

#include "acl/array.h"
#include "acl/tensor.h"
#include "tests/testing/call.h"

namespace flashacl::testing {
namespace {

TensorArgument AsData(const aclTensor* handle) {
  const auto tensor = acl::Find<acl::Tensor>(handle);
  if (tensor == nullptr) return {.dims = {1}, .present = false};
  const auto rank = static_cast<ptrdiff_t>(tensor->rank);
  return {.dims = {tensor->dims.begin(), tensor->dims.begin() + rank},
          .type = tensor->acl_dtype,
          .strides = {tensor->strides.begin(), tensor->strides.begin() + rank},
          .offset = tensor->offset,
          .format = tensor->format};
}

TensorArgument AsData(const acl::Passed& passed) {
  const auto list = acl::Find<acl::TensorList>(passed.list);
  if (list == nullptr) return AsData(passed.tensor);
  TensorArgument argument =
      AsData(list->members.empty() ? nullptr : list->members[0]);
  argument.list = true;
  argument.members = list->members.size();
  return argument;
}

}  // namespace

OperatorCall OperatorFixture::AsData() {
  const Parameters passed = Pass();
  OperatorCall call{.name = entry_.name,
                    .tensors = {},
                    .arrays = {},
                    .reals = passed.reals,
                    .integers = passed.integers,
                    .texts = {},
                    .first_output = passed.tensors.size()};
  for (const acl::Passed& tensor : passed.tensors) {
    if (caller.IsOutput(tensor.tensor)) {
      call.first_output = std::min(call.first_output, call.tensors.size());
    }
    call.tensors.push_back(testing::AsData(tensor));
  }
  for (const aclIntArray* handle : passed.arrays) {
    const auto array = acl::Find<acl::IntArray>(handle);
    call.arrays.emplace_back();
    if (array != nullptr) call.arrays.back() = array->values;
  }
  for (const char* text : passed.texts) {
    call.texts.emplace_back();
    if (text != nullptr) call.texts.back() = text;
  }
  return call;
}

}  // namespace flashacl::testing
