// SPDX-License-Identifier: Apache-2.0
// The definition that all oracles share: one row of scores, and what it makes
// of values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace flashacl::testing {

// A score of -inf is not seen. The sink is a key whose value is zero.
template <typename T>
struct SoftmaxOf {
  static constexpr T kUnseen = -std::numeric_limits<T>::infinity();

  explicit SoftmaxOf(const std::vector<T>& scores, T sink = kUnseen)
      : max(sink), weights(scores.size(), T{0}) {
    for (const T score : scores) max = std::max(max, score);
    if (max == kUnseen) return;
    sum = std::exp(sink - max);
    for (size_t j = 0; j < scores.size(); ++j) {
      sum += weights[j] = std::exp(scores[j] - max);
    }
  }

  // sum_j weights[j] * value(j, d) / sum for each channel; zeros if nothing is
  // seen. What has no weight is not looked at.
  template <typename Value>
  std::vector<T> Of(int64_t channels, const Value& value) const {
    std::vector<T> out(static_cast<size_t>(channels), T{0});
    for (size_t j = 0; j < weights.size(); ++j) {
      if (weights[j] == 0) continue;
      for (int64_t d = 0; d < channels; ++d) {
        out[static_cast<size_t>(d)] +=
            weights[j] / sum * value(static_cast<int64_t>(j), d);
      }
    }
    return out;
  }

  T max;
  T sum = 0;
  std::vector<T> weights;  // exp(score - max); others may change them
};

using Softmax = SoftmaxOf<double>;

}  // namespace flashacl::testing
