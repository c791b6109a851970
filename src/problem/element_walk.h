// SPDX-License-Identifier: Apache-2.0
// All elements that a TensorSpec names, each once: axes that repeat count once.
#pragma once

#include <array>
#include <cstdint>

#include "problem/tensor_spec.h"

namespace flashacl {

// Calls body(first, count) for runs of elements side by side. Of kBlocks, whose
// dims do not say it all, they are those below `end`.
template <typename Body>
void ForEachRun(const TensorSpec& spec, int64_t end, Body body) {
  if (spec.placement == Placement::kBlocks) {
    for (int64_t n = 0; n < end; n += spec.block_step()) body(n, int64_t{1});
    return;
  }
  const std::array<int64_t, 4> counts = spec.DistinctDims();
  const bool dense = spec.strides[3] == 1 && spec.channel_block == 0;
  for (int64_t a = 0; a < counts[0]; ++a) {
    for (int64_t b = 0; b < counts[1]; ++b) {
      for (int64_t c = 0; c < counts[2]; ++c) {
        if (dense && counts[3] > 0) body(spec.At(a, b, c), counts[3]);
        for (int64_t e = 0; !dense && e < counts[3]; ++e) {
          body(spec.At(a, b, c, e), int64_t{1});
        }
      }
    }
  }
}

// The same, one by one: calls body(offset).
template <typename Body>
void ForEachElement(const TensorSpec& spec, int64_t end, Body body) {
  ForEachRun(spec, end, [&](int64_t first, int64_t count) {
    for (int64_t n = first; n < first + count; ++n) body(n);
  });
}

}  // namespace flashacl
