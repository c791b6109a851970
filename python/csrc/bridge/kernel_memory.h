// SPDX-License-Identifier: Apache-2.0
// What CPU kernels allocate for results of npu tensors comes from the adapter's
// allocator: it is counted as the device's, and a block that is given back
// while a stream still reads it is not handed out before that stream has come
// so far.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

namespace flashacl::bridge {

// Puts the allocator in the CPU's place. Where no guard lives, allocations are
// those of before. Once in a process.
void InstallKernelMemory();

// While one lives, the calling thread's CPU tensors are made in memory of the
// device that is current.
class KernelMemoryGuard {
 public:
  KernelMemoryGuard();
  ~KernelMemoryGuard();
  KernelMemoryGuard(const KernelMemoryGuard&) = delete;
  KernelMemoryGuard& operator=(const KernelMemoryGuard&) = delete;

 private:
  bool before_;
};

// `data` as the memory of an npu tensor. What is not the adapter's is given
// back after all that the device has queued by then.
c10::DataPtr AsDeviceMemory(c10::DataPtr data, c10::Device device);

}  // namespace flashacl::bridge
