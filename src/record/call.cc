// SPDX-License-Identifier: Apache-2.0
#include "record/call.h"

namespace flashacl::record {
namespace {

// NumPy has no bfloat16, no complex numbers of halves, no halves of bytes and
// no floats of 8 bits: these are the integers that hold them.
constexpr ElementType kTypes[] = {
    {"FLOAT", "<f4", DType::kF32, 32},
    {"FLOAT16", "<f2", DType::kF16, 16},
    {"BFLOAT16", "<u2", DType::kBf16, 16},
    {"DOUBLE", "<f8", DType::kF64, 64},
    {"INT8", "|i1", DType::kI8, 8},
    {"UINT8", "|u1", DType::kU8, 8},
    {"BOOL", "|b1", DType::kBool, 8},
    {"INT16", "<i2", DType::kNone, 16},
    {"UINT16", "<u2", DType::kNone, 16},
    {"INT32", "<i4", DType::kI32, 32},
    {"UINT32", "<u4", DType::kNone, 32},
    {"INT64", "<i8", DType::kI64, 64},
    {"UINT64", "<u8", DType::kU64, 64},
    {"INT4", "|u1", DType::kNone, 4},
    {"HIFLOAT8", "|u1", DType::kNone, 8},
    {"FLOAT8_E5M2", "|u1", DType::kNone, 8},
    {"FLOAT8_E4M3FN", "|u1", DType::kNone, 8},
    {"FLOAT8_E8M0", "|u1", DType::kNone, 8},
    {"COMPLEX32", "<u4", DType::kNone, 32},
    {"COMPLEX64", "<c8", DType::kNone, 64},
    {"COMPLEX128", "<c16", DType::kNone, 128},
};

}  // namespace

const ElementType* FindElementType(std::string_view name) {
  for (const ElementType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

int64_t BadNumbers(const Call& call) {
  int64_t bad = 0;
  ForTensors(call, [&](const std::string&, const Tensor& tensor) {
    if (!tensor.after.has_value()) return;
    bad += tensor.after->statistics.nans + tensor.after->statistics.infinities;
  });
  return bad;
}

}  // namespace flashacl::record
