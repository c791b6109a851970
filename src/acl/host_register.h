// SPDX-License-Identifier: Apache-2.0
// Ranges of the caller's own memory that aclrtHostRegister marked as pinned.
#pragma once

#include <cstddef>

namespace flashacl::acl {

// Whether one registered range holds all `bytes` at `address`. Thread-safe.
bool IsRegistered(const void* address, size_t bytes);

}  // namespace flashacl::acl
