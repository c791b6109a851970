// SPDX-License-Identifier: Apache-2.0
// Text for people: messages, names, notation. Formats are checked when
// compiling; formatting itself is in one source, so that who only writes
// messages does not compile the formatting library.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace flashacl {

// What Str is made of.
std::string FormatText(fmt::string_view format, fmt::format_args args);

// Str("head {} of {}", 3, 8) == "head 3 of 8".
template <typename... Args>
std::string Str(fmt::format_string<Args...> format, Args&&... args) {
  return FormatText(format, fmt::make_format_args(args...));
}

// Join({2, 16}, ", ") == "2, 16".
template <typename Range>
std::string Join(const Range& values, std::string_view separator) {
  std::string text;
  for (const auto& value : values) {
    if (!text.empty()) text += separator;
    text += Str("{}", value);
  }
  return text;
}

}  // namespace flashacl
