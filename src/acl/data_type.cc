// SPDX-License-Identifier: Apache-2.0
// Facts about element types, and the two conversions of half precision that the
// C API offers. Those never make an infinity or a NaN; base/half.h does.
#include "acl/acl_rt.h"
#include "acl/raw_enum.h"
#include "base/half.h"

namespace {

constexpr uint16_t kSign = 0x8000;
constexpr uint16_t kInfinity = 0x7C00;
constexpr uint16_t kLargest = 0x7BFF;

}  // namespace

extern "C" {

size_t aclDataTypeSize(aclDataType dataType) {
  switch (flashacl::acl::Raw(dataType)) {
    case ACL_DT_UNDEFINED:
    case ACL_STRING:
      return 0;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_INT4:
    case ACL_UINT1:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_FLOAT16:
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_BF16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 8;  // also for types nobody knows, as programs expect
  }
}

float aclFloat16ToFloat(aclFloat16 value) {
  if ((value & kInfinity) != kInfinity) return flashacl::F32FromF16(value);
  const float fraction = static_cast<float>(value & 0x3FF);
  const float magnitude = (1.0f + fraction / 1024.0f) * 65536.0f;
  return (value & kSign) != 0 ? -magnitude : magnitude;
}

aclFloat16 aclFloatToFloat16(float value) {
  if (value != value) return kLargest;
  const uint16_t half = flashacl::F16FromF32(value);
  if ((half & kInfinity) != kInfinity) return half;
  return static_cast<uint16_t>((half & kSign) | kLargest);
}

}  // extern "C"
