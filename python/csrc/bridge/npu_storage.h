// SPDX-License-Identifier: Apache-2.0
// Storages as the adapter makes them. It keeps a description of the memory's
// layout in each, and reads it without asking who made the storage.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <initializer_list>

namespace flashacl::bridge {

// What a storage holds: a tensor of this shape and type.
struct Contents {
  c10::IntArrayRef sizes;
  c10::IntArrayRef strides;
  caffe2::TypeMeta dtype;
};

inline Contents ContentsOf(const at::Tensor& tensor) {
  return {tensor.sizes(), tensor.strides(), tensor.dtype()};
}

// A storage of the adapter's type over `data`.
c10::Storage MakeNpuStorage(c10::DataPtr data, size_t bytes,
                            const Contents& contents);

// Describes a storage of the adapter's again.
void DescribeNpuStorage(const c10::Storage& storage, const Contents& contents);

// Whether all are npu tensors of the current device with elements, whose memory
// is laid out as their strides say, not in a format of the adapter's own. Null
// ones are not asked.
bool ArePlain(std::initializer_list<const at::Tensor*> tensors);

}  // namespace flashacl::bridge
