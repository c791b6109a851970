// SPDX-License-Identifier: Apache-2.0
// PyTorch's scaled_dot_product_attention by the adapter's fused attention, for
// every shape that a mask may be broadcast from, and by PyTorch's composition
// for the rest.
#pragma once

#include <torch/library.h>

namespace flashacl::bridge {

// Under both keys: the derivative is that of the operators it calls.
void RegisterAttention(torch::Library& npu, torch::Library& autograd);

}  // namespace flashacl::bridge
