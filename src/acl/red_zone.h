// SPDX-License-Identifier: Apache-2.0
// What strict mode puts into and around a block: contents that are NaN or -1,
// and bytes on both sides that nobody may write.
#pragma once

#include <string>

#include "acl/memory.h"
#include "plan/backend.h"

namespace flashacl::acl {

// Before a block; after it come what it has reserved beyond its size, and zeros
// (kSlackBytes), which loads of whole vectors may reach.
inline constexpr size_t kFrontZoneBytes = 64;

// What all bytes of a new block are: NaN in every float type, -1 in signed
// ones.
inline constexpr std::byte kNewByte{0xFF};

// Fills what a new block has and what is around it. Contents of host memory are
// left alone.
void FillNewBlock(Memory& memory, const Block& block);

// "the 3 bytes before it, from the first on, were written", or nothing. What is
// told is made good, so that it is told once.
std::string DamageAround(Memory& memory, const Block& block);

}  // namespace flashacl::acl
