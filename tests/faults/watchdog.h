// SPDX-License-Identifier: Apache-2.0
// Ends a program that hangs, with the stacks of all its threads.
#pragma once

#include <string>

namespace flashacl::testing {

// While it exists, what it watches must end within some seconds; else the
// process says what that was, shows the stack of each thread, and aborts.
class Watched {
 public:
  explicit Watched(const std::string& what);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
};

}  // namespace flashacl::testing
