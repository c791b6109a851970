// SPDX-License-Identifier: Apache-2.0
// Shapes of scales.
#include "ops/inference_factors.h"

#include <array>

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

}  // namespace flashacl::ops
