// SPDX-License-Identifier: Apache-2.0
// How far rounding may take fp32 results from exact ones, whatever the
// processor's instructions: sums in any order, products fused with them or
// rounded on their own.
#pragma once

#include <cmath>
#include <cstdint>

namespace flashacl::testing {

inline constexpr double kRoundoff = 0x1p-24;  // of fp32
inline constexpr double kBf16Roundoff = 0x1p-8;
// A little more than half a unit of numbers that are integers of 16 bits, in
// shares of the greatest of them (docs/notes/0065).
inline constexpr double kHalfUnit = 0x1.001p-16;

// Of a sum of products whose magnitudes sum to `size`. Each product goes
// through its own rounding and at most `terms` of sums: (1 + u)^(terms + 1) - 1
// is less than (terms + 2) u for up to 4000 terms.
constexpr double SumError(int64_t terms, double size) {
  return static_cast<double>(terms + 2) * kRoundoff * size;
}

// Of exp(t), in shares of it, where t is the rounded difference of two numbers:
// the kernels' bound for exp (cpu/tile/softmax-inl.h), and the roundings of t.
inline double ExpError(double t) {
  return 2.1e-7 + (2.8e-9 + kRoundoff) * std::fabs(t);
}

// What errors of kernels may be in those of a plain fp32 computation, both of
// them random. A score of 64 products errs like 3.3 u where its scale is 1/8,
// the kernels' exp by up to 3.5 u, 2 u on average, the C library's by 0.3 u:
//   sqrt(3.3^2 + 2^2) / sqrt(3.3^2 + 0.3^2) = 1.17
// and a factor 1 / sum is rounded once more than a quotient. Of 400 rows, the
// fewest that are compared, chance adds 5 %. The greatest of as many errors is
// 3 +- 0.4 times their mean, so the quotient of two 1 +- 0.2.
inline constexpr double kMaxRms = 1.25;
inline constexpr double kMaxGreatest = 2;

}  // namespace flashacl::testing
