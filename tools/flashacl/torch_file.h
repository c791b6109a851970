// SPDX-License-Identifier: Apache-2.0
// Tensors that PyTorch saved: a Python that has it reads them, in a process of
// its own, as data and nothing else (weights_only).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "arrays/array.h"
#include "base/status.h"

namespace flashacl::tool {

struct Python {
  std::string command = "python3";  // looked for on PATH
  // The file may be a stranger's: how long reading it may take, and the memory
  // that the process may have besides four times the file's size.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
  int64_t memory = int64_t{8} << 30;  // bytes
};

// The tensor of a file X.pt or X.pth. `wanted` is the one that the user names,
// of a dictionary "a", of one in it "a.b", of a list "0"; if it is empty, the
// only one or that called `name`. kInvalidArgument for a file that is broken,
// holds what only running it would make, has no such tensor, takes too long or
// needs too much; kRuntime where there is no Python or it has no torch.
Result<Array> ReadTorchFile(const std::string& path, std::string_view wanted,
                            std::string_view name, const Python& python);

}  // namespace flashacl::tool
