// SPDX-License-Identifier: Apache-2.0
// Addresses as numbers, to be compared and sorted with those of other blocks.
#pragma once

#include <cstdint>

namespace flashacl::acl {

inline uintptr_t Number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

}  // namespace flashacl::acl
