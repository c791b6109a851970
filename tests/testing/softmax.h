// SPDX-License-Identifier: Apache-2.0
// The definition that every oracle of a call shares: one row of scores, and
// what it makes of values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace flashacl::testing {

// A score of -inf is not seen. The sink is a key whose value is zero.
struct Softmax {
  static constexpr double kUnseen = -std::numeric_limits<double>::infinity();

  explicit Softmax(const std::vector<double>& scores, double sink = kUnseen)
      : max(sink), weights(scores.size(), 0.0) {
    for (const double score : scores) max = std::max(max, score);
    if (max == kUnseen) return;
    sum = std::exp(sink - max);
    for (size_t j = 0; j < scores.size(); ++j) {
      sum += weights[j] = std::exp(scores[j] - max);
    }
  }

  // sum_j weights[j] * value(j, d) / sum for each channel; zeros if nothing is
  // seen. What has no weight is not looked at.
  template <typename Value>
  std::vector<double> Of(int64_t channels, const Value& value) const {
    std::vector<double> out(static_cast<size_t>(channels), 0.0);
    for (size_t j = 0; j < weights.size(); ++j) {
      if (weights[j] == 0) continue;
      for (int64_t d = 0; d < channels; ++d) {
        out[static_cast<size_t>(d)] +=
            weights[j] / sum * value(static_cast<int64_t>(j), d);
      }
    }
    return out;
  }

  double max;
  double sum = 0;
  std::vector<double> weights;  // exp(score - max); others may change them
};

}  // namespace flashacl::testing
