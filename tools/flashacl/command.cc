// SPDX-License-Identifier: Apache-2.0
// What commands say when they cannot do what they are told.
#include "tools/flashacl/command.h"

#include <cstdio>

#include "base/str.h"

namespace flashacl::tool {

int Mistake(const Status& status) {
  const std::string& message = status.message();
  const bool ends = message.ends_with('\n');
  fmt::print(stderr, "flashacl: {}{}", message, ends ? "" : "\n");
  return kMistake;
}

}  // namespace flashacl::tool
