// SPDX-License-Identifier: Apache-2.0
// aclTensorDesc: what a program says of a tensor of a single-operator call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "acl/acl_base.h"
#include "acl/handle.h"

namespace flashacl::acl {

struct TensorDesc {
  static constexpr HandleKind kHandleKind = HandleKind::kTensorDesc;

  struct Layout {
    int format = ACL_FORMAT_UNDEFINED;  // an aclFormat, or any number
    std::vector<int64_t> dims;
  };
  using Ranges = std::vector<std::array<int64_t, 2>>;  // least, greatest

  int type = ACL_DT_UNDEFINED;  // an aclDataType, or any number
  Layout origin;                // as the program has it
  Layout storage;               // as it lies in memory
  Ranges shape_ranges;
  Ranges value_ranges;
  std::string name;
  std::string dynamic_input;
  int placement = ACL_MEMTYPE_DEVICE;
  std::vector<std::byte> constant;

  // Of the origin; 0 where an extent is not known or the product too large.
  size_t ElementCount() const;
};

// Null, with 100000 in `*error`, unless `desc` is live. `parameter` is what the
// caller calls it: "desc", "inputDesc[2]".
std::shared_ptr<TensorDesc> FindTensorDesc(std::string_view function,
                                           std::string_view parameter,
                                           const aclTensorDesc* desc,
                                           aclError* error);

}  // namespace flashacl::acl
