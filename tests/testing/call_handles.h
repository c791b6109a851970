// SPDX-License-Identifier: Apache-2.0
// What the calls of operator_call.h are made of, for the files that list them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/testing/operator_call.h"

namespace flashacl::testing {

// The C side of one call; destroys what it made.
struct CallHandles {
  explicit CallHandles(const OperatorCall& call) : texts(call.texts) {
    for (const TensorArgument& of : call.tensors) {
      tensors.push_back(
          !of.present
              ? nullptr
              : aclCreateTensor(
                    of.dims.data(), of.dims.size(), of.type,
                    of.strides.empty() ? nullptr : of.strides.data(), of.offset,
                    of.format, of.dims.data(), of.dims.size(), of.data));
    }
    for (const auto& values : call.arrays) {
      arrays.push_back(values.has_value()
                           ? aclCreateIntArray(values->data(), values->size())
                           : nullptr);
    }
  }

  CallHandles(const CallHandles&) = delete;
  CallHandles& operator=(const CallHandles&) = delete;

  ~CallHandles() {
    for (const auto& [index, list] : lists) aclDestroyTensorList(list);
    for (const aclTensor* tensor : tensors) aclDestroyTensor(tensor);
    for (const aclIntArray* array : arrays) aclDestroyIntArray(array);
  }

  // The tensor at `index` as a list of one; null if it is absent.
  const aclTensorList* List(size_t index) const {
    if (tensors[index] == nullptr) return nullptr;
    const aclTensorList*& list = lists[index];
    const aclTensor* const members[] = {tensors[index]};
    if (list == nullptr) list = aclCreateTensorList(members, 1);
    return list;
  }

  char* Text(size_t index) const {
    return texts[index].has_value() ? texts[index]->data() : nullptr;
  }

  std::vector<aclTensor*> tensors;
  std::vector<aclIntArray*> arrays;
  mutable std::vector<std::optional<std::string>> texts;
  mutable std::map<size_t, const aclTensorList*> lists;
};

// Of prefill and decode: the versions tests know by place, and the others.
OperatorCall Prefill();
OperatorCall Decode();
std::vector<OperatorCall> OtherInferenceCalls();

}  // namespace flashacl::testing
