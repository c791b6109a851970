// SPDX-License-Identifier: Apache-2.0
// One line on the terminal that says what takes so long, and goes away.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "base/str.h"

namespace flashacl::tool {

// Silent where stderr is not a terminal.
class Progress {
 public:
  Progress() = default;
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Say(std::string_view what) {
    if (terminal_) fmt::print(stderr, "\r\033[K{:.78}", what);
  }

  // Before anything else is printed.
  void Clear() { Say(""); }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
};

}  // namespace flashacl::tool
