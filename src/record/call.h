// SPDX-License-Identifier: Apache-2.0
// One call of an operator, as data: all that was passed in both phases, what
// was answered, and which bytes lay in its tensors before and after.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "record/statistics.h"

namespace flashacl::record {

// Bytes at one moment.
struct Contents {
  std::string digest;  // of all of them; empty: nobody could read them
  bool kept = false;   // stored under this digest
  Statistics statistics;

  bool operator==(const Contents&) const = default;
};

// A view as it was described, and the bytes from its first element to after
// its last, whatever lies between them.
struct Tensor {
  std::string type;  // "FLOAT16", as documents spell it
  int32_t type_number = 0;
  int32_t format = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements
  int64_t offset = 0;            // elements
  std::vector<int64_t> storage;  // shape of what it is a view of
  bool input = false;
  bool output = false;
  bool has_data = false;  // an address was given
  int64_t bytes = 0;      // of the view, if it is launched; 0: not looked at
  std::optional<Contents> before;
  std::optional<Contents> after;  // of outputs

  bool operator==(const Tensor&) const = default;
};

struct Scalar {
  std::string type;
  int32_t type_number = 0;
  std::vector<uint8_t> bytes;

  bool operator==(const Scalar&) const = default;
};

// Nothing: a null pointer. NoObject: a handle of nothing that lives.
struct Nothing {
  bool operator==(const Nothing&) const = default;
};
struct NoObject {
  bool operator==(const NoObject&) const = default;
};
using TensorOrNot = std::optional<Tensor>;
using Value =
    std::variant<Nothing, NoObject, Tensor, std::vector<TensorOrNot>, Scalar,
                 std::vector<int64_t>, double, int64_t, bool, std::string>;

struct Parameter {
  std::string name;
  std::string kind;  // "tensor", "tensors", "scalar", "ints", "real", "int",
                     // "bool", "text": what it is, even if nothing was passed
  Value value;

  bool operator==(const Parameter&) const = default;
};

// What a phase answered.
struct Answer {
  int32_t status = 0;
  std::string message;

  bool operator==(const Answer&) const = default;
};

struct Call {
  int64_t number = 0;     // of the process's calls, from 1 on
  int64_t process = 0;    // its id
  std::string time;       // of phase one, UTC
  std::string operation;  // "aclnnAdd"
  std::string function;   // of phase one
  std::vector<Parameter> parameters;
  std::string problem;  // what it asks for, in one line; and who computes it
  std::string implementation;
  Answer plan;
  uint64_t workspace_bytes = 0;  // that it answered
  std::optional<Answer> launch;  // none: there was no phase two
  uint64_t given_workspace = 0;  // bytes
  bool has_workspace = false;    // an address was given
  int32_t stream = 0;
  double microseconds = 0;  // of the run

  bool operator==(const Call&) const = default;

  bool failed() const {
    return plan.status != 0 || (launch.has_value() && launch->status != 0);
  }
};

// Calls body(name, tensor) for each tensor: "key[2]" of a list.
template <typename C, typename F>
void ForTensors(C& call, F&& body) {
  for (auto& parameter : call.parameters) {
    if (auto* const one = std::get_if<Tensor>(&parameter.value)) {
      body(parameter.name, *one);
    }
    auto* const list = std::get_if<std::vector<TensorOrNot>>(&parameter.value);
    if (list == nullptr) continue;
    for (size_t n = 0; n < list->size(); ++n) {
      if (!(*list)[n].has_value()) continue;
      body(parameter.name + "[" + std::to_string(n) + "]", *(*list)[n]);
    }
  }
}

// NaNs and infinities in what the call wrote.
int64_t BadNumbers(const Call& call);

// Of bytes: how many elements of a type take; INT4 has two in a byte. 0 for
// types whose elements have no size here.
struct ElementType {
  std::string_view name;
  std::string_view npy;  // "<f2": what NumPy reads it as
  DType dtype;           // kNone: stored without statistics
  int bits;
};
const ElementType* FindElementType(std::string_view name);

}  // namespace flashacl::record
