// SPDX-License-Identifier: Apache-2.0
// The vector code of the backward direction over listed keys, for the best
// instruction set that this processor has.
#pragma once

#include <cstdint>

#include "cpu/topk/topk_backward_params.h"

namespace flashacl::cpu {

struct TopKBackwardKernels {
  // Makes the saved pds of a position and finds the gradient of its queries.
  void (*differentiate)(const TopKBackwardDqItem& item) = nullptr;

  // Adds a position's columns to the sums of a d block.
  void (*add_to_keys)(const DkvArgs& item) = nullptr;

  // A row of floats as elements, rounded once.
  void (*store_row)(const ElementFormat& format, const float* from,
                    int64_t count, std::byte* to) = nullptr;

  int64_t width = 0;  // channels of one block, lanes of one panel
};

TopKBackwardKernels TopKBackward();

}  // namespace flashacl::cpu
