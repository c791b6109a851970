// SPDX-License-Identifier: Apache-2.0
// Named mask rules, and the band a rule means for one sequence.
#include "problem/mask.h"

#include <algorithm>

namespace flashacl {
namespace {

int64_t Bounded(int64_t distance) {
  return std::clamp(distance, -Band::kOpen, Band::kOpen);
}

// Negates what may be the least integer.
int64_t BoundedMinus(int64_t distance) { return -Bounded(distance); }

}  // namespace

Band Mask::BandOf(int64_t sequence, int64_t rows, int64_t columns) const {
  if (rules.empty()) return {};
  const size_t index = rules.size() == 1 ? 0 : static_cast<size_t>(sequence);
  return rules[index].For(rows, columns);
}

MaskRule Causal() { return {MaskRule::Corner::kBottomRight, {.upper = 0}}; }

MaskRule CausalTopLeft() { return {MaskRule::Corner::kTopLeft, {.upper = 0}}; }

MaskRule Window(int64_t left, int64_t right) {
  return {MaskRule::Corner::kBottomRight,
          {.lower = BoundedMinus(left), .upper = Bounded(right)}};
}

MaskRule TopLeftBand(int64_t lower, int64_t upper) {
  return {MaskRule::Corner::kTopLeft,
          {.lower = Bounded(lower), .upper = Bounded(upper)}};
}

}  // namespace flashacl
