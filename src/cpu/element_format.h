// SPDX-License-Identifier: Apache-2.0
// How the bytes of a row become numbers.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "problem/tensor_spec.h"

namespace flashacl::cpu {

// The last axis of a tensor: elements `step` elements apart.
struct ElementFormat {
  DType dtype = DType::kNone;
  int64_t step = 1;
  int64_t element_bytes = 0;

  ElementFormat() = default;
  explicit ElementFormat(const TensorSpec& spec)
      : dtype(spec.dtype),
        step(spec.strides[3]),
        element_bytes(SizeOf(spec.dtype)) {}

  bool operator==(const ElementFormat&) const = default;
};

}  // namespace flashacl::cpu
