// SPDX-License-Identifier: Apache-2.0
// Sorts and looks.
#include "tools/flashacl/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace flashacl::tool {
namespace {

double At(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above],
                   place - static_cast<double>(below));
}

}  // namespace

Summary Summarise(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), At(values, 0.25), At(values, 0.5), At(values, 0.75),
          values.back()};
}

}  // namespace flashacl::tool
