// SPDX-License-Identifier: Apache-2.0
// Blocks that were freed a short while ago, in strict mode: their memory stays
// away from others and, where pages allow, from everybody, so that who still
// uses one is told which, and where it was freed.
#pragma once

#include <memory>

#include "acl/call_site.h"
#include "acl/memory.h"

namespace flashacl::acl {

struct FreedBlock {
  Block block;
  CallSite freed;
};

// Takes a block in whose `memory` nobody else has. The oldest ones leave where
// there are more than 256 MiB or 4096 blocks.
void Quarantine(FreedBlock freed, std::shared_ptr<const void> memory);

// The freed block that an address lies in; false if there is none.
bool FindFreed(const void* address, FreedBlock* freed);

// Gives all memory back, for good: there is none left, or the process exits.
// What is freed stays known.
void EmptyQuarantine();

// "the block of 4,096 bytes at 0x.. that aclrtFree in f freed; aclrtMalloc in g
// had made it".
std::string ToString(const FreedBlock& freed);

}  // namespace flashacl::acl
