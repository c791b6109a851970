// SPDX-License-Identifier: Apache-2.0
// The bytes of a strided view, without what lies between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "acl/tensor.h"
#include "base/function_ref.h"

namespace flashacl::acl {

struct ByteView {
  const std::byte* first = nullptr;  // of element 0; null: no bytes
  size_t element = 0;                // bytes that lie together
  size_t rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank> strides{};  // bytes, not negative

  bool empty() const { return element == 0; }
  // From the first to after the last, gaps included.
  size_t bytes() const;
  // The same view of other memory, from `data` instead of null.
  ByteView At(const std::byte* data) const;

  // Calls body(run, bytes) for all bytes, in runs that lie together, until it
  // answers false or `most` runs are done; whether all were.
  bool ForRuns(FunctionRef<bool(const std::byte*, size_t)> body,
               size_t most = size_t{1} << 16) const;
};

// The view of a tensor from null on: what it adds to an address. Empty where
// the tensor is.
ByteView ViewOf(const Tensor& tensor);
ByteView ViewOf(const void* first, size_t bytes);

// Whether two views share a byte. Where that is too much to find out, they
// share none.
bool Overlap(const ByteView& a, const ByteView& b);

}  // namespace flashacl::acl
