// SPDX-License-Identifier: Apache-2.0
// Scales and offsets of 8-bit numbers: one for all, or one per channel, in any
// of the shapes CANN writes them in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "acl/arguments.h"
#include "acl/tensor.h"
#include "base/status.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// [head, channel] factors in the axes of `tensor` from `first_axis` on: 1
// element, heads * dim, or heads and dim as two axes. Axes of 1 do not count.
// kContradiction for anything else.
struct Channels {
  size_t first_axis = 0;
  int64_t heads = 0;
  int64_t dim = 0;
};
Result<TensorSpec> FactorSpec(std::string_view name, const acl::Tensor& tensor,
                              const Channels& channels);

// Rows `scale` and `offset` of a table: an offset needs a scale of its type and
// shape, or at least of as many elements.
Status CheckPair(const acl::Arguments& arguments, int scale, int offset,
                 bool same_shape);

// Rows of a table: what makes the output one of 8 bits.
struct OutScales {
  int scale;
  int offset;
  int query;
  int out;
};

// kContradiction unless there is a scale just where the output is INT8, of
// BFLOAT16 only beside such a query.
Status CheckOutScales(const acl::Arguments& arguments, const OutScales& rows);

}  // namespace flashacl::ops
