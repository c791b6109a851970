// SPDX-License-Identifier: Apache-2.0
// acltdtDataItem and acltdtDataset: tensors on their way through a channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acl/acl_tdt.h"
#include "acl/handle.h"

namespace flashacl::acl {

struct DataItem {
  static constexpr HandleKind kHandleKind = HandleKind::kDataItem;

  int kind = ACL_TENSOR_DATA_UNDEFINED;  // an acltdtTensorType
  int type = ACL_DT_UNDEFINED;           // an aclDataType, or any number
  std::vector<int64_t> dims;
  void* data = nullptr;  // the caller's
  size_t size = 0;       // in bytes
};

struct Dataset {
  static constexpr HandleKind kHandleKind = HandleKind::kDataset;

  std::vector<acltdtDataItem*> items;  // handles, which are the caller's
};

}  // namespace flashacl::acl
