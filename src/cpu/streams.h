// SPDX-License-Identifier: Apache-2.0
// When results go past the caches.
#pragma once

#include <cstdint>

namespace flashacl::cpu {

// Whether results of this many bytes are too much for caches: more than most
// processors have for a core and less than any has in all. What is streamed is
// not fetched before it is written: a third of what a copy moves, a quarter of
// what a merge of two does.
constexpr bool Streams(int64_t bytes) { return bytes >= int64_t{8} << 20; }

}  // namespace flashacl::cpu
