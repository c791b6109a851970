// SPDX-License-Identifier: Apache-2.0
// aclopAttr: what a program gives an operator besides tensors, by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "acl/handle.h"

namespace flashacl::acl {

// An aclDataType, or any number.
struct TypeNumber {
  int number = 0;
  bool operator==(const TypeNumber&) const = default;
};

using Attribute =
    std::variant<bool, int64_t, float, std::string, TypeNumber,
                 std::vector<bool>, std::vector<int64_t>, std::vector<float>,
                 std::vector<std::string>, std::vector<TypeNumber>,
                 std::vector<std::vector<int64_t>>>;

struct Attributes {
  static constexpr HandleKind kHandleKind = HandleKind::kAttributes;

  std::map<std::string, Attribute> values;
};

}  // namespace flashacl::acl
