// SPDX-License-Identifier: Apache-2.0
#include "acl/byte_view.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace flashacl::acl {
namespace {

using Bytes = std::pair<const std::byte*, const std::byte*>;  // first, end

bool Separate(const Bytes& a, const Bytes& b) {
  return a.second <= b.first || b.second <= a.first;
}

// In order of addresses; false if there are too many.
bool BytesOf(const ByteView& view, std::vector<Bytes>* runs) {
  const bool all = view.ForRuns([&](const std::byte* first, size_t bytes) {
    runs->emplace_back(first, first + bytes);
    return true;
  });
  std::ranges::sort(*runs);
  return all;
}

}  // namespace

size_t ByteView::bytes() const {
  if (empty()) return 0;
  size_t bytes = element;
  for (size_t axis = 0; axis < rank; ++axis) {
    bytes += static_cast<size_t>((dims[axis] - 1) * strides[axis]);
  }
  return bytes;
}

ByteView ByteView::At(const std::byte* data) const {
  ByteView view = *this;
  if (data == nullptr) {
    view.element = 0;
  } else {
    view.first = data + reinterpret_cast<uintptr_t>(first);
  }
  return view;
}

bool ByteView::ForRuns(FunctionRef<bool(const std::byte*, size_t)> body,
                       size_t most) const {
  if (empty()) return true;
  std::array<int64_t, kMaxRank> at{};
  for (size_t count = 0; count < most; ++count) {
    const std::byte* run = first;
    for (size_t axis = 0; axis < rank; ++axis) run += at[axis] * strides[axis];
    if (!body(run, element)) return true;
    size_t axis = rank;
    while (axis > 0 && ++at[axis - 1] == dims[axis - 1]) at[--axis] = 0;
    if (axis == 0) return true;
  }
  return false;
}

ByteView ViewOf(const Tensor& tensor) {
  ByteView view;
  if (tensor.extent_bytes() == 0) return view;
  const int64_t two = tensor.BytesOf(2);
  view.first = reinterpret_cast<const std::byte*>(
      static_cast<uintptr_t>(tensor.offset_bytes()));
  // Inner axes that leave no gaps make longer runs.
  int64_t run = 1;
  bool together = true;
  for (size_t axis = tensor.rank; axis-- > 0;) {
    const int64_t dim = tensor.dims[axis];
    if (dim == 1) continue;
    const int64_t stride = tensor.strides[axis];
    together = together && stride == run;
    if (together) {
      run *= dim;
      continue;
    }
    view.dims[view.rank] = dim;
    view.strides[view.rank++] = stride * two / 2;
  }
  view.element = static_cast<size_t>((run * two + 1) / 2);
  std::reverse(view.dims.begin(), view.dims.begin() + view.rank);
  std::reverse(view.strides.begin(), view.strides.begin() + view.rank);
  return view;
}

ByteView ViewOf(const void* first, size_t bytes) {
  return {.first = static_cast<const std::byte*>(first), .element = bytes};
}

bool Overlap(const ByteView& a, const ByteView& b) {
  if (a.empty() || b.empty()) return false;
  if (Separate({a.first, a.first + a.bytes()},
               {b.first, b.first + b.bytes()})) {
    return false;
  }
  if (a.rank == 0 && b.rank == 0) return true;
  std::vector<Bytes> runs, others;
  if (!BytesOf(a, &runs) || !BytesOf(b, &others)) return false;
  auto other = others.begin();
  for (const Bytes& run : runs) {
    while (other != others.end() && other->second <= run.first) ++other;
    if (other == others.end()) return false;
    if (!Separate(run, *other)) return true;
  }
  return false;
}

}  // namespace flashacl::acl
