// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz files: a zip archive with a .npy file for each array.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arrays/array.h"
#include "base/status.h"

namespace flashacl {

// Names of the arrays in it, without .npy. kInvalidArgument where the file is
// no zip archive; kRuntime where it cannot be read.
Result<std::vector<std::string>> NamesInNpz(const std::string& path);

// One of them. Takes no more memory than its bytes in the archive can become.
Result<Array> ReadNpz(const std::string& path, std::string_view name);

}  // namespace flashacl
