// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, versions 1 to 3, for whoever reads or writes one. A file
// that promises more elements than it has is an error before memory is taken
// for them.
// Source: NumPy's documentation of numpy.lib.format.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arrays/array.h"
#include "base/status.h"

namespace flashacl {

// What a file says before its elements.
struct NpyHeader {
  std::string descr;  // of an element: "<f4"
  bool fortran = false;
  std::vector<int64_t> dims;
  size_t offset = 0;  // of the elements in the file
};

// `file` begins with the header; its elements are not looked at.
// kInvalidArgument for what is no header.
Result<NpyHeader> ParseNpyHeader(std::string_view file);

// Version 1, C's order; the elements after it begin at a multiple of 64 bytes.
std::string WriteNpyHeader(std::string_view descr,
                           const std::vector<int64_t>& dims);

// Floats of 16, 32 and 64 bits, bool, integers of 8, 32 and 64 bits of which
// NumPy's names are known, in any byte order and in C's or Fortran's order of
// axes; of two-byte integers and V2 (bf16) the bits alone. kInvalidArgument
// says what else is there.
Result<Array> ParseNpy(std::span<const std::byte> file);

// Version 1. Elements without a dtype are V of their width.
std::vector<std::byte> WriteNpy(const Array& array);

}  // namespace flashacl
