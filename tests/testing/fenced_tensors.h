// SPDX-License-Identifier: Apache-2.0
// Every tensor of a case between pages that nobody may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/testing/fenced.h"
#include "tests/testing/small_case.h"
#include "verify/fill.h"

namespace flashacl::testing {

// Copies of all tensors of a case.
class FencedTensors {
 public:
  FencedTensors(const SmallCase& small, FencedBytes::Side side) : side_(side) {
    const AttentionProblem& problem = small.problem();
    for (size_t n = 0; n < kSlots; ++n) {
      const Slot slot = static_cast<Slot>(n);
      const auto& bytes = small.bytes(slot);
      if (!problem.has(slot)) continue;
      bindings_[slot] = Copy(bytes.data(), static_cast<int64_t>(bytes.size()));
    }
    for (size_t b = 0; b < problem.kv.key_list.size(); ++b) {
      bindings_.key_list.push_back(
          Copy(small.bindings().key_list[b], BytesOf(problem.kv.key_list[b])));
    }
    for (size_t b = 0; b < problem.kv.value_list.size(); ++b) {
      bindings_.value_list.push_back(Copy(small.bindings().value_list[b],
                                          BytesOf(problem.kv.value_list[b])));
    }
  }

  const Bindings& bindings() const { return bindings_; }

 private:
  std::byte* Copy(const std::byte* from, int64_t bytes) {
    memory_.emplace_back(bytes, side_);
    std::byte* const to = memory_.back().data();
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return to;
  }

  FencedBytes::Side side_;
  std::vector<FencedBytes> memory_;
  Bindings bindings_;
};

}  // namespace flashacl::testing
