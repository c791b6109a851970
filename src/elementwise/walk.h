// SPDX-License-Identifier: Apache-2.0
// Several tensors of one shape, element by element at one time, in rows that
// are as long as their strides allow.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/range.h"

namespace flashacl::elementwise {

inline constexpr int kMaxRank = 8;
inline constexpr int kMaxOperands = 3;

using Axes = std::array<int64_t, kMaxRank>;        // one number per axis
using Places = std::array<int64_t, kMaxOperands>;  // one per tensor: elements

// A nest of loops; the last is the row. The order of elements is of no
// meaning.
class Walk {
 public:
  // `strides` of up to kMaxOperands tensors; the last is the one that is
  // written, whose order in memory is followed. `extents` multiply to less
  // than 2^63.
  Walk(std::span<const int64_t> extents, std::span<const Axes> strides);

  int64_t elements() const { return elements_; }
  const Places& row_steps() const { return steps_[rank_ - 1]; }

  // Calls row(places, count) for every row, or part of one, of elements
  // [first, last) in the order of the walk; row_steps() leads on in it.
  template <typename Row>
  void ForRows(Range elements, Row&& row) const {
    const int64_t length = extents_[rank_ - 1];
    int64_t next = elements.first;
    while (next < elements.last) {
      const int64_t column = next % length;
      const int64_t count = elements.last - next < length - column
                                ? elements.last - next
                                : length - column;
      row(PlacesOf(next / length, column), count);
      next += count;
    }
  }

 private:
  Places PlacesOf(int64_t row, int64_t column) const;

  int rank_ = 1;
  int64_t elements_ = 1;
  Axes extents_{};
  std::array<Places, kMaxRank> steps_{};  // by axis
};

}  // namespace flashacl::elementwise
