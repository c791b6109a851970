// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, versions 1 to 3. A file that promises more elements than
// it has is an error before memory is taken for them.
// Source: NumPy's documentation of numpy.lib.format.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "arrays/array.h"
#include "base/status.h"

namespace flashacl {

// Floats of 16, 32 and 64 bits, bool, integers of 8, 32 and 64 bits of which
// NumPy's names are known, in any byte order and in C's or Fortran's order of
// axes; of two-byte integers and V2 (bf16) the bits alone. kInvalidArgument
// says what else is there.
Result<Array> ParseNpy(std::span<const std::byte> file);

// Version 1. Elements without a dtype are V of their width.
std::vector<std::byte> WriteNpy(const Array& array);

}  // namespace flashacl
