// SPDX-License-Identifier: Apache-2.0
// A tensor as files hold it: elements, and how many there are on each axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace flashacl {

struct Array {
  // kNone where the file says only how wide elements are: numpy has no word for
  // bf16, and stores it as two bytes of anything.
  DType dtype = DType::kNone;
  int64_t element_bytes = 0;
  std::vector<int64_t> dims;     // none: one element
  std::vector<std::byte> bytes;  // the last axis is dense; little endian

  int64_t elements() const {
    return element_bytes == 0
               ? 0
               : static_cast<int64_t>(bytes.size()) / element_bytes;
  }
};

// The most axes of an array in a file, and of bytes that one may have.
inline constexpr size_t kMaxAxes = 16;
inline constexpr int64_t kMaxArrayBytes = int64_t{1} << 36;

// Bytes of so many elements. kInvalidArgument for axes that are negative, too
// many, or too large together.
Result<int64_t> ArrayBytes(const std::vector<int64_t>& dims,
                           int64_t element_bytes);

}  // namespace flashacl
