// SPDX-License-Identifier: Apache-2.0
// Axes of one element are left out, the others ordered as the result lies in
// memory, and neighbours merged that all tensors step through alike.
#include "elementwise/walk.h"

#include <algorithm>

namespace flashacl::elementwise {
namespace {

struct Axis {
  int64_t extent = 1;
  Places steps{};
};

// Whether `outer` goes on where `inner` ends.
bool Joins(const Axis& outer, const Axis& inner) {
  for (size_t n = 0; n < outer.steps.size(); ++n) {
    int64_t end = 0;
    if (__builtin_mul_overflow(inner.steps[n], inner.extent, &end) ||
        outer.steps[n] != end) {
      return false;
    }
  }
  return true;
}

}  // namespace

Walk::Walk(std::span<const int64_t> extents, std::span<const Axes> strides) {
  std::array<Axis, kMaxRank> axes;
  size_t count = 0;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    elements_ *= extents[axis];
    if (extents[axis] == 1) continue;
    axes[count].extent = extents[axis];
    for (size_t n = 0; n < strides.size(); ++n) {
      axes[count].steps[n] = strides[n][axis];
    }
    ++count;
  }
  const size_t written = strides.size() - 1;
  std::stable_sort(axes.begin(), axes.begin() + static_cast<int64_t>(count),
                   [&](const Axis& one, const Axis& other) {
                     return one.steps[written] > other.steps[written];
                   });
  size_t kept = 0;
  for (size_t axis = 0; axis < count; ++axis) {
    if (kept > 0 && Joins(axes[kept - 1], axes[axis])) {
      axes[kept - 1].extent *= axes[axis].extent;
      axes[kept - 1].steps = axes[axis].steps;
    } else {
      axes[kept++] = axes[axis];
    }
  }
  rank_ = std::max<int>(static_cast<int>(kept), 1);
  for (size_t axis = 0; axis < static_cast<size_t>(rank_); ++axis) {
    extents_[axis] = axes[axis].extent;
    steps_[axis] = axes[axis].steps;
  }
  // One element is a row that nobody steps in.
  if (kept == 0) {
    extents_[0] = 1;
    steps_[0].fill(1);
  }
}

Places Walk::PlacesOf(int64_t row, int64_t column) const {
  Places places{};
  for (int axis = rank_ - 1; axis >= 0; --axis) {
    const size_t at = static_cast<size_t>(axis);
    int64_t index = column;
    if (axis < rank_ - 1) {
      index = row % extents_[at];
      row /= extents_[at];
    }
    for (size_t n = 0; n < places.size(); ++n) {
      places[n] += index * steps_[at][n];
    }
  }
  return places;
}

}  // namespace flashacl::elementwise
