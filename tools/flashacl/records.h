// SPDX-License-Identifier: Apache-2.0
// Recorded calls, as commands name them: DIRECTORY, or DIRECTORY/CALL.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "record/directory.h"

namespace flashacl::tool {

struct Records {
  record::Reader reader;
  std::vector<std::string> calls;  // that are meant, in order
};

// DIRECTORY/CALL is one call, by its number with or without leading zeros.
Result<Records> OpenRecords(const std::string& where);

// "3.4 ms", "12 us".
std::string TimeText(double microseconds);

}  // namespace flashacl::tool
