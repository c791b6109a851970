// SPDX-License-Identifier: Apache-2.0
// Names of slots, and dense specs.
#include "problem/slot.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "problem/tensor_spec.h"

namespace flashacl {
namespace {

constexpr std::string_view kNames[] = {
    "query",
    "query rope",
    "key",
    "key rope",
    "value",
    "key prefix",
    "value prefix",
    "mask",
    "bias",
    "sink",
    "keep",
    "block table",
    "top-k",
    "query lengths",
    "key lengths",
    "key padding",
    "query padding",
    "key scale",
    "key offset",
    "value scale",
    "value offset",
    "key row scale",
    "key row offset",
    "value row scale",
    "value row offset",
    "query row scale",
    "out scale",
    "out offset",
    "weight scale",
    "out",
    "row max",
    "row sum",
    "log-sum-exp",
    "grad out",
    "grad query",
    "grad query rope",
    "grad key",
    "grad key rope",
    "grad value",
    "grad bias",
    "grad sink",
};
static_assert(std::size(kNames) == kSlots);

}  // namespace

std::string_view Name(Slot slot) { return kNames[static_cast<size_t>(slot)]; }

TensorSpec DenseSpec(DType dtype, std::array<int64_t, 4> dims) {
  TensorSpec spec{.dtype = dtype, .dims = dims};
  int64_t stride = 1;
  for (size_t axis = 4; axis-- > 0;) {
    spec.strides[axis] = stride;
    // Too much to count stays too much: CheckProblem refuses the span.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(dims[axis], 1),
                               &stride)) {
      stride = std::numeric_limits<int64_t>::max();
    }
  }
  return spec;
}

}  // namespace flashacl
