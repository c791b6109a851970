// SPDX-License-Identifier: Apache-2.0
#include "bridge/allocation.h"

#include <ATen/DimVector.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bridge/faces.h"
#include "bridge/npu_storage.h"
#include "bridge/queue.h"

namespace flashacl::bridge {
namespace {

// What factories take beside a shape.
struct Options {
  std::optional<at::ScalarType> dtype;
  std::optional<at::Layout> layout;
  std::optional<at::Device> device;
  std::optional<bool> pin_memory;
};

// On the current device.
at::Tensor Make(c10::IntArrayRef sizes, c10::IntArrayRef strides, size_t bytes,
                caffe2::TypeMeta dtype) {
  c10::Storage storage = MakeNpuStorage(
      c10::GetAllocator(kNpu)->allocate(bytes), bytes, {sizes, strides, dtype});
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor Allocate(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                    size_t bytes, const Options& options,
                    caffe2::TypeMeta dtype) {
  TORCH_CHECK(options.layout.value_or(c10::kStrided) == c10::kStrided,
              "Only strided npu tensors can be made, not of layout ",
              *options.layout);
  TORCH_CHECK(!options.pin_memory.value_or(false),
              "Only dense CPU tensors can be pinned");
  torch::utils::device_lazy_init(kNpu);
  const auto index = options.device.has_value() && options.device->has_index()
                         ? options.device->index()
                         : CurrentDevice();
  const c10::Device device(kNpu, index);
  const c10::OptionalDeviceGuard guard(device);
  return Make(sizes, strides, bytes, dtype);
}

at::DimVector RowMajor(c10::IntArrayRef sizes) {
  at::DimVector strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

at::Tensor Empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout,
                 std::optional<at::Device> device,
                 std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  at::detail::check_size_nonnegative(sizes);
  const caffe2::TypeMeta type =
      c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype));
  const size_t bytes =
      at::detail::computeStorageNbytesContiguous(sizes, type.itemsize());
  const at::DimVector strides = RowMajor(sizes);
  at::Tensor tensor = Allocate(sizes, strides, bytes,
                               {dtype, layout, device, pin_memory}, type);
  if (format.has_value() && *format != at::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    DescribeNpuStorage(tensor.storage(), ContentsOf(tensor));
  }
  return tensor;
}

at::Tensor EmptyStrided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                        std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout,
                        std::optional<at::Device> device,
                        std::optional<bool> pin_memory) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  const auto strides = C10_AS_INTARRAYREF_SLOW(stride);
  at::detail::check_size_nonnegative(sizes);
  TORCH_CHECK(sizes.size() == strides.size(), "dimensionality of sizes (",
              sizes.size(), ") must match dimensionality of strides (",
              strides.size(), ")");
  const caffe2::TypeMeta type =
      c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype));
  const size_t bytes =
      at::detail::computeStorageNbytes(sizes, strides, type.itemsize());
  return Allocate(sizes, strides, bytes, {dtype, layout, device, pin_memory},
                  type);
}

// PyTorch's tensor of zeros without memory has no counterpart here.
at::Tensor Zeros(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout,
                 std::optional<at::Device> device,
                 std::optional<bool> pin_memory) {
  return Empty(size, dtype, layout, device, pin_memory, std::nullopt).zero_();
}

}  // namespace

at::Tensor NewTensor(c10::IntArrayRef sizes, at::ScalarType dtype) {
  const caffe2::TypeMeta type = c10::scalarTypeToTypeMeta(dtype);
  return Make(
      sizes, RowMajor(sizes),
      at::detail::computeStorageNbytesContiguous(sizes, type.itemsize()), type);
}

bool RegisterAllocation(torch::Library& npu, const std::string& name) {
  if (name == "aten::empty.memory_format") {
    npu.impl(name.c_str(), TORCH_FN(Empty));
  } else if (name == "aten::empty_strided") {
    npu.impl(name.c_str(), TORCH_FN(EmptyStrided));
  } else if (name == "aten::_efficientzerotensor") {
    npu.impl(name.c_str(), TORCH_FN(Zeros));
  } else {
    return false;
  }
  return true;
}

}  // namespace flashacl::bridge
