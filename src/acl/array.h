// SPDX-License-Identifier: Apache-2.0
// The host-side values of aclnn calls: arrays and scalars (copied when they are
// created) and lists of handles (which own their members' destruction).
#pragma once

#include <cstdint>
#include <vector>

#include "acl/handle.h"
#include "aclnn/acl_meta.h"

namespace flashacl::acl {

struct Scalar {
  static constexpr HandleKind kHandleKind = HandleKind::kScalar;

  aclDataType type = ACL_DT_UNDEFINED;
  std::vector<uint8_t> bytes;
};

struct IntArray {
  static constexpr HandleKind kHandleKind = HandleKind::kIntArray;

  std::vector<int64_t> values;
};

struct FloatArray {
  static constexpr HandleKind kHandleKind = HandleKind::kFloatArray;

  std::vector<float> values;
};

struct BoolArray {
  static constexpr HandleKind kHandleKind = HandleKind::kBoolArray;

  std::vector<uint8_t> values;
};

// Entries may be null.
struct TensorList {
  static constexpr HandleKind kHandleKind = HandleKind::kTensorList;

  std::vector<const aclTensor*> members;
};

struct ScalarList {
  static constexpr HandleKind kHandleKind = HandleKind::kScalarList;

  std::vector<const aclScalar*> members;
};

}  // namespace flashacl::acl
