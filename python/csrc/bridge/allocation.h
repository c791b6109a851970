// SPDX-License-Identifier: Apache-2.0
// New npu tensors, in memory of the adapter's allocator. The adapter's own
// functions for them know one memory format, and cost several times as much.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <string>

namespace flashacl::bridge {

// Registers the kernel of `name`, if it is one of those that allocate.
bool RegisterAllocation(torch::Library& npu, const std::string& name);

// A contiguous tensor of the current device, with anything in it.
at::Tensor NewTensor(c10::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace flashacl::bridge
