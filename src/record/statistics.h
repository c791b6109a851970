// SPDX-License-Identifier: Apache-2.0
// What there is to say of a tensor's numbers without showing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace flashacl::record {

struct Statistics {
  int64_t count = 0;  // 0: of a type without statistics
  int64_t nans = 0;
  int64_t infinities = 0;
  // Of those that are neither; 0 if there is none.
  double min = 0;
  double max = 0;
  double mean = 0;

  bool operator==(const Statistics&) const = default;
};

// Where the elements of a view are, from the first on. Strides are elements,
// and not negative.
struct Layout {
  DType dtype = DType::kNone;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;
};

// Calls body(index of the first, count) for elements that lie together.
template <typename F>
void ForRows(const Layout& layout, F&& body) {
  const size_t rank = layout.shape.size();
  for (const int64_t dim : layout.shape) {
    if (dim == 0) return;
  }
  // Axes from the last one on that are one piece.
  size_t outer = rank;
  int64_t run = 1;
  while (outer > 0 &&
         (layout.shape[outer - 1] == 1 || layout.strides[outer - 1] == run)) {
    run *= layout.shape[--outer];
  }
  std::vector<int64_t> at(outer, 0);
  for (int64_t first = 0;;) {
    body(first, run);
    size_t axis = outer;
    while (axis > 0) {
      --axis;
      first += layout.strides[axis];
      if (++at[axis] < layout.shape[axis]) break;
      first -= layout.strides[axis] * layout.shape[axis];
      at[axis] = 0;
      if (axis == 0) return;
    }
    if (outer == 0) return;
  }
}

// Whether elements lie one after the other.
bool IsDense(const Layout& layout);

// Of numbers that come one after the other, in parts of whole elements.
class StatisticsSum {
 public:
  explicit StatisticsSum(DType dtype) : dtype_(dtype) {}

  void Add(std::span<const std::byte> elements);
  Statistics Get() const;

 private:
  const DType dtype_;
  Statistics found_;
  double sum_ = 0;
};

// `bytes` begin with the first element, and hold the last one.
Statistics StatisticsOf(std::span<const std::byte> bytes, const Layout& layout);

}  // namespace flashacl::record
