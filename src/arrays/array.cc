// SPDX-License-Identifier: Apache-2.0
#include "arrays/array.h"

namespace flashacl {

Result<int64_t> ArrayBytes(const std::vector<int64_t>& dims,
                           int64_t element_bytes) {
  if (dims.size() > kMaxAxes) {
    return Invalid("shape: {} axes, expected at most {}", dims.size(),
                   kMaxAxes);
  }
  int64_t bytes = element_bytes;
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return Invalid("shape: an axis of {} elements", dim);
    empty = empty || dim == 0;
  }
  if (empty) return int64_t{0};
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kMaxArrayBytes) {
      return Invalid("shape: more than {} bytes", kMaxArrayBytes);
    }
  }
  return bytes;
}

}  // namespace flashacl
