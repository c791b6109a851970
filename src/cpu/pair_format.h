// SPDX-License-Identifier: Apache-2.0
// Which rows may stay pairs of channels (cpu/pair_dots.h).
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "cpu/element_format.h"

namespace flashacl::cpu {

// Whether a row of so many channels is words of two.
inline bool ArePairs(const ElementFormat& format, int64_t channels) {
  return format.dtype == DType::kBf16 && format.step == 1 &&
         channels % 2 == 0 && format.channel_block % 2 == 0;
}

}  // namespace flashacl::cpu
