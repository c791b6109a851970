// SPDX-License-Identifier: Apache-2.0
// Seconds of one run, and the median of several.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace flashacl::bench {

using Clock = std::chrono::steady_clock;

template <typename Body>
double Seconds(Body&& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace flashacl::bench
