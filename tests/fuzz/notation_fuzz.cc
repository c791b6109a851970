// SPDX-License-Identifier: Apache-2.0
// Bytes to a line of notation. A line is refused with a message or means a
// problem whose canonical line means the same problem.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "problem/notation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto problem = flashacl::Parse(line);
  if (!problem.ok()) {
    if (problem.status().message().empty()) std::abort();
    return 0;
  }
  const std::string canonical = flashacl::ToString(*problem);
  const auto again = flashacl::Parse(canonical);
  if (!again.ok() || !(*again == *problem)) std::abort();
  if (flashacl::ToString(*again) != canonical) std::abort();
  return 0;
}
