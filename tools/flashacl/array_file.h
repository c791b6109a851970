// SPDX-License-Identifier: Apache-2.0
// Arrays from files of any kind that people have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arrays/array.h"
#include "base/status.h"
#include "tools/flashacl/torch_file.h"

namespace flashacl::tool {

inline constexpr std::string_view kFileHelp =
    "X.npy, X.npz:ARRAY, X.pt or X.pt:TENSOR (where Python has torch), or a "
    "raw file X:DTYPE:SHAPE, e.g. q.bin:bf16:2x64x8x128";

// The array that `text` names; `name` is what an archive calls it if `text`
// does not say. Messages begin with the file's name. A file that is broken is
// kInvalidArgument, one that cannot be read kRuntime. `python` reads PyTorch's.
Result<Array> ReadArrayFile(const std::string& text, std::string_view name,
                            const Python& python = {});

}  // namespace flashacl::tool
