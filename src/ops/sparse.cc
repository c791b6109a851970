// SPDX-License-Identifier: Apache-2.0
// Shapes of sparse attention.
#include "ops/sparse.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/str.h"

namespace flashacl::ops {

using acl::Arguments;
using acl::Tensor;

Status CheckLike(const Arguments& arguments, int row, int like,
                 int64_t channels) {
  const Tensor& tensor = *arguments.given(row);
  const Tensor& model = *arguments.given(like);
  bool same = tensor.rank == model.rank;
  for (size_t axis = 0; same && axis < tensor.rank; ++axis) {
    const bool last = axis + 1 == tensor.rank && channels >= 0;
    same = tensor.dims[axis] == (last ? channels : model.dims[axis]);
  }
  if (same) return {};
  return Invalid("{}: shape {} does not match {}'s {}{}", arguments.name(row),
                 ShapeText(tensor), arguments.name(like), ShapeText(model),
                 channels < 0 ? "" : Str(" with last axis {}", channels));
}

Status CheckIndices(const Arguments& arguments, int row, int query) {
  const Tensor& indices = *arguments.given(row);
  const Tensor& queries = *arguments.given(query);
  const size_t heads = queries.rank - 2;
  bool fits = indices.rank == queries.rank;
  for (size_t axis = 0; fits && axis < heads; ++axis) {
    fits = indices.dims[axis] == queries.dims[axis];
  }
  if (fits && indices.dims[heads] == 1 && indices.dims[heads + 1] >= 1) {
    return {};
  }
  return Invalid("{}: shape {}, expected query's rows {}, 1, K",
                 arguments.name(row), ShapeText(indices), ShapeText(queries));
}

Status CheckStatistics(const Arguments& arguments, int row, int query) {
  const Tensor& tensor = *arguments.given(row);
  const Tensor& queries = *arguments.given(query);
  const bool packed = queries.rank == 3;
  const int64_t rows = queries.dims[queries.rank - 3];
  const int64_t heads = queries.dims[queries.rank - 2];
  const std::array<int64_t, 4> dense{queries.dims[0], 1, rows, heads};
  if (std::ranges::equal(tensor.shape(),
                         std::span(dense).subspan(packed ? 1 : 0))) {
    return {};
  }
  return Invalid("{}: shape {}, expected [{}1, {}, {}]", arguments.name(row),
                 ShapeText(tensor), packed ? "" : Str("{}, ", queries.dims[0]),
                 rows, heads);
}

TensorSpec StatisticsSpec(const Tensor& tensor, int64_t sequences) {
  const bool packed = tensor.rank == 3;
  const size_t axis = packed ? 1 : 2;  // of rows
  TensorSpec spec{.dtype = DType::kF32};
  spec.dims = {sequences, tensor.dims[axis + 1], tensor.dims[axis], 1};
  spec.strides = {packed ? 0 : tensor.strides[0], tensor.strides[axis + 1],
                  tensor.strides[axis], 0};
  if (packed) spec.placement = Placement::kTensorRows;
  return spec;
}

Status CheckOneEach(const Arguments& arguments, int row, int64_t sequences) {
  const Tensor& lengths = *arguments.given(row);
  if (lengths.rank == 1 && lengths.dims[0] == sequences) return {};
  return Invalid("{}: shape {}, expected [{}]", arguments.name(row),
                 ShapeText(lengths), sequences);
}

}  // namespace flashacl::ops
