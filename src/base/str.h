// SPDX-License-Identifier: Apache-2.0
// Text for people: messages, names, notation. One thin name over fmt, so that
// the formatting library can be changed in one place.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

namespace flashacl {

// Str("head {} of {}", 3, 8) == "head 3 of 8". Checked when compiling.
template <typename... Args>
std::string Str(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace flashacl
