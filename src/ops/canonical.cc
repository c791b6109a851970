// SPDX-License-Identifier: Apache-2.0
// Reordering axes with strides.
#include "ops/canonical.h"

#include <algorithm>

namespace flashacl::ops {

TensorSpec Strided(const acl::Tensor& tensor, const std::array<int, 4>& axes,
                   const std::array<int64_t, 4>& repeat) {
  TensorSpec spec{.dtype = tensor.dtype()};
  for (size_t n = 0; n < 4; ++n) {
    const bool absent = axes[n] == kOne;
    const size_t axis = absent ? 0 : static_cast<size_t>(axes[n]);
    spec.dims[n] = absent ? repeat[n] : tensor.dims[axis];
    spec.strides[n] = absent ? 0 : tensor.strides[axis];
    // One entry where the problem has several is repeated.
    if (!absent && spec.dims[n] == 1 && repeat[n] > 1) {
      spec.dims[n] = repeat[n];
      spec.strides[n] = 0;
    }
  }
  return spec;
}

TensorSpec Canonical(const acl::Tensor& tensor, const Layout& layout,
                     int64_t heads, int64_t sequences) {
  TensorSpec spec = Strided(tensor, layout.axes, {0, 0, 0, 0});
  if (layout.axes[0] == kOne) spec.dims[0] = sequences;
  if (layout.folded_heads) {
    const size_t last = tensor.rank - 1;
    const int64_t channels = tensor.dims[last] / heads;
    spec.dims[2] = heads;
    spec.dims[3] = channels;
    // Heads without channels do not lie on one another.
    spec.strides[2] = std::max<int64_t>(channels, 1) * tensor.strides[last];
    spec.strides[3] = tensor.strides[last];
  }
  return spec;
}

Status CheckRank(std::string_view name, const acl::Tensor& tensor,
                 const Layout& layout, int64_t heads) {
  if (static_cast<int>(tensor.rank) != layout.rank) {
    return Invalid("{}: shape {} has {} dimensions, layout {} has {}", name,
                   ShapeText(tensor), tensor.rank, layout.name, layout.rank);
  }
  if (layout.folded_heads && tensor.dims[tensor.rank - 1] % heads != 0) {
    return Invalid(
        "{}: last axis {} of layout {} is not a multiple of {} heads", name,
        tensor.dims[tensor.rank - 1], layout.name, heads);
  }
  return {};
}

}  // namespace flashacl::ops
