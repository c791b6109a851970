// SPDX-License-Identifier: Apache-2.0
// The one source that compiles the formatting library.
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#include "base/str.h"

#include <fmt/format.h>

namespace flashacl {

std::string FormatText(fmt::string_view format, fmt::format_args args) {
  return fmt::vformat(format, args);
}

}  // namespace flashacl
