// SPDX-License-Identifier: Apache-2.0
// Which operators of npu tensors the bridge runs, and how.
#pragma once

namespace flashacl::bridge {

// Registers a kernel for every operator of aten that FlashACL does not have.
// After the adapter has been imported; once in a process.
void Install();

}  // namespace flashacl::bridge
