// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file (NumPy's format 1.0) of one axis.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flashacl::record {

// What the data follows: a multiple of 64 bytes.
std::string NpyHeader(std::string_view type, int64_t count);

struct NpyData {
  std::string type;
  int64_t count = 0;
  size_t offset = 0;  // of the data in the file
};

// Reads what NpyHeader writes, and nothing else; `file` may begin with it.
Result<NpyData> ParseNpyHeader(std::string_view file);

}  // namespace flashacl::record
