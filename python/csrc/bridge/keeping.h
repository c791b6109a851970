// SPDX-License-Identifier: Apache-2.0
// Whether the bridge may make a call of attention in the adapter's place.
#pragma once

#include <torch/version.h>

// Since then PyTorch gives out the kernels that a library has registered.
#define FLASHACL_BRIDGE_KEEPS \
  (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 9)

namespace flashacl::bridge {

// Finds what MayKeep() asks. Once, before the first call.
void InstallKeeping();

// Not with PyTorch before 2.9; not in a process that watches what the library
// is asked for (FLASHACL_STRICT, FLASHACL_TRACE, FLASHACL_RECORD), or that
// wants the adapter's queue or to wait for each launch; not while PyTorch's
// calls are observed, the calling thread's current stream is captured, or the
// adapter counts FLOPs or cores.
bool MayKeep();

// Lets nobody, or those that MayKeep() describes, do so; returns what was.
bool SetKeeping(bool on);

}  // namespace flashacl::bridge
