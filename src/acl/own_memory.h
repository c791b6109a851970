// SPDX-License-Identifier: Apache-2.0
// The program's own memory at an address that it gave: it may not be there at
// all, which the system finds out, not a fault.
#pragma once

#include <cstddef>
#include <span>

namespace flashacl::acl {

// Copies to.size() bytes; false where not all of them can be read.
bool ReadOwnMemory(const std::byte* from, std::span<std::byte> to);

// The same by way of a pipe, where the system has no call that reads a process,
// or refuses it: emulators, sandboxes. Slower; also false where there is no
// pipe.
bool ReadThroughPipe(const std::byte* from, std::span<std::byte> to);

}  // namespace flashacl::acl
