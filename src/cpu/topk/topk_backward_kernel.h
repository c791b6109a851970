// SPDX-License-Identifier: Apache-2.0
// The vector code of the backward direction over listed keys, for the best
// instruction set that this processor has.
#pragma once

#include <cstdint>

#include "cpu/topk/topk_backward_params.h"

namespace flashacl::cpu {

struct TopKBackwardKernels {
  // Saves p and ds of a position's listed keys; adds them to its dq.
  void (*differentiate)(const TopKBackwardDqItem& item) = nullptr;

  // Adds what a position saved to the sums of a kv block and a d block.
  void (*add_to_keys)(const DkvArgs& args) = nullptr;

  // A row of floats as elements, rounded once.
  void (*store_row)(const ElementFormat& format, const float* from,
                    int64_t count, std::byte* to) = nullptr;
};

TopKBackwardKernels TopKBackward();

}  // namespace flashacl::cpu
