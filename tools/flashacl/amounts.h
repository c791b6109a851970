// SPDX-License-Identifier: Apache-2.0
// Large numbers as people read them.
#pragma once

#include <array>
#include <string>

#include "base/str.h"

namespace flashacl::tool {

// `value` with the largest of `units` (each `step` times the one before) that
// leaves at least 1 before the point.
template <size_t n>
std::string Scaled(double value, double step,
                   const std::array<const char*, n>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < n) {
    value /= step;
    ++unit;
  }
  if (unit == 0) return Str("{:.0f} {}", value, units[0]);
  return Str("{:.{}f} {}", value, value < 10 ? 2 : 1, units[unit]);
}

inline std::string Bytes(double bytes) {
  return Scaled(bytes, 1024,
                std::array{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

inline std::string Flops(double flops) {
  return Scaled(
      flops, 1000,
      std::array{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"});
}

}  // namespace flashacl::tool
