// SPDX-License-Identifier: Apache-2.0
#include "bridge/npu_storage.h"

#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "bridge/faces.h"
#include "bridge/queue.h"
#include "torch_npu/csrc/core/NPUStorageImpl.h"

namespace flashacl::bridge {
namespace {

// What the adapter calls the layout of a plain tensor with so many axes.
aclFormat PlainFormat(int64_t dims) {
  if (dims == 4) return ACL_FORMAT_NCHW;
  if (dims == 5) return ACL_FORMAT_NCDHW;
  return ACL_FORMAT_ND;
}

bool IsPlain(const at::Tensor& tensor, c10::DeviceIndex device) {
  if (!IsNpu(tensor) || tensor.device().index() != device ||
      tensor.numel() == 0) {
    return false;
  }
  const auto* impl = static_cast<const torch_npu::NPUStorageImpl*>(
      tensor.storage().unsafeGetStorageImpl());
  const aclFormat format = impl->npu_desc_.npu_format_;
  return impl->data() != nullptr &&
         (format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW ||
          format == ACL_FORMAT_NCDHW || format == ACL_FORMAT_NCL);
}

}  // namespace

void DescribeNpuStorage(const c10::Storage& storage, const Contents& contents) {
  auto* impl =
      static_cast<torch_npu::NPUStorageImpl*>(storage.unsafeGetStorageImpl());
  torch_npu::NPUStorageDesc& desc = impl->npu_desc_;
  const auto& [sizes, strides, dtype] = contents;
  desc.base_sizes_.assign(sizes.begin(), sizes.end());
  desc.base_strides_.assign(strides.begin(), strides.end());
  desc.storage_sizes_.assign(sizes.begin(), sizes.end());
  desc.origin_format_ = PlainFormat(static_cast<int64_t>(sizes.size()));
  desc.npu_format_ = desc.origin_format_;
  desc.data_type_ = dtype;
}

c10::Storage MakeNpuStorage(c10::DataPtr data, size_t bytes,
                            const Contents& contents) {
  c10::Storage storage(c10::GetStorageImplCreate(kNpu)(
      c10::StorageImpl::use_byte_size_t(),
      c10::SymInt(static_cast<int64_t>(bytes)), std::move(data),
      c10::GetAllocator(kNpu), /*resizable=*/true));
  DescribeNpuStorage(storage, contents);
  return storage;
}

bool ArePlain(std::initializer_list<const at::Tensor*> tensors) {
  const c10::DeviceIndex device = CurrentDevice();
  return std::all_of(tensors.begin(), tensors.end(), [&](const auto* tensor) {
    return tensor == nullptr || IsPlain(*tensor, device);
  });
}

}  // namespace flashacl::bridge
