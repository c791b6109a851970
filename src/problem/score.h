// SPDX-License-Identifier: Apache-2.0
// What happens to a score between q.k and softmax.
#pragma once

#include <cmath>
#include <cstdint>

namespace flashacl {

// score = scale * (q.k + bias), or scale * q.k + bias, or with a slope per head
// scale * q.k - slope * |distance|, where
//   distance = (j + key_start) - (i + query_start).
struct Score {
  enum class Bias : uint8_t {
    kNone,
    kAfterScale,
    kBeforeScale,
    kAlibi,      // slope * |distance|
    kAlibiSqrt,  // slope * sqrt(|distance|)
  };

  float scale = 1.0f;
  Bias bias = Bias::kNone;
  int64_t query_start = 0;         // alibi: where row 0 stands
  int64_t key_start = 0;           // alibi: where column 0 stands
  bool starts_only_first = false;  // the starts hold for sequence 0, others: 0
  float keep_probability = 1.0f;   // a kept weight is divided by it
  // Probs may have 16 bits when they meet values. Beside queries of bf16 they
  // may be rounded to that, and gradients of scores before they meet queries
  // and keys. Beside keys and values of 8 bits they may become integers times
  // what is their row's, and so may queries, key scales included. The row sum,
  // and gradients of biases and sinks, stay those of what they were.
  bool half_probs = false;

  // The distance of row 0 and column 0.
  int64_t AlibiStart(int64_t sequence) const {
    return starts_only_first && sequence != 0 ? 0 : key_start - query_start;
  }

  // What alibi multiplies by the slope.
  double AlibiFactor(int64_t sequence, int64_t i, int64_t j) const {
    const double distance =
        std::fabs(static_cast<double>(j - i + AlibiStart(sequence)));
    return bias == Bias::kAlibiSqrt ? std::sqrt(distance) : distance;
  }

  bool operator==(const Score&) const = default;
};

constexpr bool IsAlibi(Score::Bias bias) {
  return bias == Score::Bias::kAlibi || bias == Score::Bias::kAlibiSqrt;
}

}  // namespace flashacl
