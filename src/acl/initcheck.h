// SPDX-License-Identifier: Apache-2.0
// Initcheck, in strict mode: inputs with bytes that nobody has written since
// they were allocated. The runtime sees its own writes; that a byte still holds
// what strict mode filled new blocks with shows that the program's are not
// there either. Where the program's own operators write to device memory
// (FLASHACL_HOST_ACCESS=1), only tensors that still hold it everywhere are
// told.
#pragma once

#include <span>
#include <string_view>

#include "acl/racecheck.h"

namespace flashacl::acl {

// Tells once of each tensor that is read before it was written; then notes what
// is written. On the host, where device memory may be touched, before the work.
void CheckInitialised(std::string_view operation,
                      std::span<const Access> accesses);

// Notes bytes that are written elsewhere than in work that has accesses.
void NoteWritten(const ByteView& view);

// A block is new, or gone.
void ForgetWritten(const void* base, size_t bytes);

}  // namespace flashacl::acl
