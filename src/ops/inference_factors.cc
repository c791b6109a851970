// SPDX-License-Identifier: Apache-2.0
// Shapes of scales.
#include "ops/inference_factors.h"

#include <array>

#include "ops/inference.h"

namespace flashacl::ops {

Result<TensorSpec> FactorSpec(std::string_view name, const acl::Tensor& tensor,
                              const Channels& channels) {
  std::array<size_t, acl::kMaxRank> axes{};
  size_t count = 0;
  for (size_t axis = channels.first_axis; axis < tensor.rank; ++axis) {
    if (tensor.dims[axis] != 1) axes[count++] = axis;
  }
  TensorSpec spec{.dtype = tensor.dtype(),
                  .dims = {channels.heads, channels.dim, 1, 1}};
  if (count == 0) return spec;
  if (count == 1 && tensor.dims[axes[0]] == channels.heads * channels.dim) {
    const int64_t stride = tensor.strides[axes[0]];
    spec.strides = {channels.dim * stride, stride, 0, 0};
    return spec;
  }
  if (count == 2 && tensor.dims[axes[0]] == channels.heads &&
      tensor.dims[axes[1]] == channels.dim) {
    spec.strides = {tensor.strides[axes[0]], tensor.strides[axes[1]], 0, 0};
    return spec;
  }
  return Contradiction(
      "{}: shape {}, expected one number or one for each of {} heads of {} "
      "channels",
      name, ShapeText(tensor), channels.heads, channels.dim);
}

Status CheckPair(const acl::Arguments& arguments, int scale, int offset,
                 bool same_shape) {
  if (!arguments.has(offset)) return {};
  if (!arguments.has(scale)) {
    return Contradiction("{}: given without {}", arguments.name(offset),
                         arguments.name(scale));
  }
  const bool alike =
      same_shape ? SameShape(arguments[scale], arguments[offset])
                 : arguments[scale].elements() == arguments[offset].elements();
  if (alike && arguments[scale].dtype() == arguments[offset].dtype()) return {};
  return Contradiction(
      "{}: {} of shape {} does not match {}: {} of shape {}",
      arguments.name(offset), acl::TypeText(arguments[offset].acl_dtype),
      ShapeText(arguments[offset]), arguments.name(scale),
      acl::TypeText(arguments[scale].acl_dtype), ShapeText(arguments[scale]));
}

Status CheckOutScales(const acl::Arguments& arguments, const OutScales& rows) {
  const bool int8 = arguments[rows.out].dtype() == DType::kI8;
  FLASHACL_RETURN_IF_ERROR(CheckPair(arguments, rows.scale, rows.offset, true));
  const std::string_view scale = arguments.name(rows.scale);
  if (int8 != arguments.has(rows.scale)) {
    return int8 ? Contradiction("{}: absent, but attentionOut is INT8", scale)
                : Contradiction("{}: given, but attentionOut is not INT8",
                                scale);
  }
  if (int8 && arguments[rows.scale].dtype() == DType::kBf16 &&
      arguments[rows.query].dtype() != DType::kBf16) {
    return Contradiction("{}: data type BFLOAT16, but query is {}", scale,
                         acl::TypeText(arguments[rows.query].acl_dtype));
  }
  return {};
}

}  // namespace flashacl::ops
