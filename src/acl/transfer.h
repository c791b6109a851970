// SPDX-License-Identifier: Apache-2.0
// Copies and fills, as every aclrtMemcpy* and aclrtMemset* function makes them:
// checked against the blocks the runtime knows, then done now or on a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "acl/acl_rt.h"

namespace flashacl::acl {

// `height` rows of `width` bytes, whose starts are a pitch apart. Never empty
// and never wraps around the address space once Check has taken it.
struct Transfer {
  std::byte* dst = nullptr;
  size_t dst_pitch = 0;
  const std::byte* src = nullptr;
  size_t src_pitch = 0;
  size_t width = 0;
  size_t height = 1;
  size_t readable = SIZE_MAX;  // bytes from src on that exist, set by Check
  bool waits = false;          // one side is pageable, set by Locate
  // What src points into, if that is ours.
  std::shared_ptr<const void> buffer = nullptr;
};

// Law of both: a write past what a block has reserved is refused with 107000;
// what a read asks for past that becomes zeros. Strict mode refuses everything
// past the size that was asked for, and a `kind` the addresses do not bear out.
aclError Check(std::string_view function, int kind, Transfer* transfer);
aclError CheckWrite(std::string_view function, const void* dst, size_t bytes);

// Finds out whether host memory that is not pinned takes part.
void Locate(Transfer* transfer);

// Copies now, on this thread; in strict mode not where that races with
// somebody: 507015.
aclError Run(std::string_view function, const Transfer& transfer);

// What strict mode is told of bytes that are filled, before they are; 507015
// if that races with somebody.
aclError NoteFill(std::string_view function, const void* at, size_t bytes);

// Copies in the order of the stream; returns when done if one of them waits.
// Blocks that are freed meanwhile stay until then.
aclError Submit(std::string_view function, std::span<const Transfer> transfers,
                aclrtStream stream);

}  // namespace flashacl::acl
