// SPDX-License-Identifier: Apache-2.0
// The JSON file given to aclInit. Its keys are those of CANN, of which few mean
// anything here; the others are accepted.
#pragma once

#include <string_view>

#include "base/status.h"

namespace flashacl::acl {

struct Config {
  bool process_messages = false;  // "err_msg_mode": "1"
  int default_device = -1;        // "defaultDevice": {"default_device": "0"}
};

// kInvalidArgument if `text` is not one JSON object.
Result<Config> ParseConfig(std::string_view text);

}  // namespace flashacl::acl
