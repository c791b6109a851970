// SPDX-License-Identifier: Apache-2.0
// Scales and offsets of 8-bit numbers: one for all, or one per channel, in any
// of the shapes CANN writes them in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "acl/executor.h"
#include "base/status.h"
#include "ops/inference.h"
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

// The same of inputs that are all INT8, and of INT8 results.
Status CheckInputScales(const InferenceCall& call);
Status CheckOutScales(const InferenceCall& call);

// kContradiction unless there are just those scales that the types need.
Status CheckScales(const InferenceCall& call);

// Puts them where the problem has them. After the check.
Status PlaceScales(const InferenceCall& call, acl::Lowered& lowered);

}  // namespace flashacl::ops
