// SPDX-License-Identifier: Apache-2.0
// What an aclTensor says: an address and how to read it. The tensor owns no
// device memory and is never followed when planning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acl/handle.h"
#include "aclnn/acl_meta.h"
#include "base/dtype.h"

namespace flashacl::acl {

// At most this many dimensions, as in CANN.
inline constexpr size_t kMaxRank = 8;

// A view of memory somebody else owns. Element (i, j, ...) is at
//   data + (offset + i * strides[0] + j * strides[1] + ...) * size of dtype,
// where that of ACL_INT4 is half a byte.
struct Tensor {
  static constexpr HandleKind kHandleKind = HandleKind::kTensor;

  aclDataType acl_dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  size_t rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank> strides{};  // elements
  int64_t offset = 0;                       // elements
  std::byte* data = nullptr;
  // Shared, so that phase 1's copy of a tensor copies no array.
  std::shared_ptr<const std::vector<int64_t>> storage_dims;

  // kNone for types attention does not compute with. ACL_INT4 is kI4x8, though
  // the tensor counts single numbers, not words.
  DType dtype() const;
  std::span<const int64_t> shape() const { return {dims.data(), rank}; }
  int64_t elements() const;
  bool empty() const { return elements() == 0; }
  bool contiguous() const;

  // Bytes that so many elements take, an even number of ACL_INT4; 0 of other
  // types whose elements are no whole bytes, or that nobody knows.
  int64_t BytesOf(int64_t elements) const;

  // From element 0 to after the last; 0 if there is none or BytesOf() is 0,
  // INT64_MAX if no memory has so many. Strides are not negative.
  int64_t extent_bytes() const;

  // Of element 0, from `data`.
  int64_t offset_bytes() const { return BytesOf(offset); }
};

// "[2, 16, 128]".
std::string ShapeText(const Tensor& tensor);

// " (...)" why a program may have passed a null tensor, or nothing: since the
// last question, this thread wanted one of too many dimensions.
std::string WhyNull();

// "FLOAT16" and so on, as the documents spell data types.
std::string_view TypeText(aclDataType type);

}  // namespace flashacl::acl
