// SPDX-License-Identifier: Apache-2.0
// Collectives between processes on npu tensors: those of a backend for CPU
// tensors, on faces, and so without copies.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace flashacl::bridge {

// A backend for npu tensors over one for CPU tensors, which it keeps.
c10::intrusive_ptr<c10d::Backend> MakeCollectives(
    c10::intrusive_ptr<c10d::Backend> cpu);

}  // namespace flashacl::bridge
