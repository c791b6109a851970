// SPDX-License-Identifier: Apache-2.0
// A run of consecutive integers: rows, columns, channels.
#pragma once

#include <algorithm>
#include <cstdint>

namespace flashacl {

// Half-open: first, first + 1, ..., last - 1. Empty when last <= first.
struct Range {
  int64_t first = 0;
  int64_t last = 0;

  constexpr bool empty() const { return last <= first; }
  constexpr int64_t size() const { return empty() ? 0 : last - first; }
  constexpr bool operator==(const Range&) const = default;
};

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t unit) {
  return CeilDiv(a, unit) * unit;
}

}  // namespace flashacl
