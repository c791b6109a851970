// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnRingAttentionUpdate, V2.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tests/testing/elementwise_call.h"

namespace flashacl::testing::ring {

// Ten tensors in order of the parameters.
enum Row {
  kPrevOut,
  kPrevMax,
  kPrevSum,
  kCurOut,
  kCurMax,
  kCurSum,
  kEnds,
  kOut,
  kMaxOut,
  kSumOut
};

// V2 if there is a layout of statistics.
inline ElementwiseCall Call(std::vector<GivenTensor> tensors,
                            const char* layout,
                            std::optional<const char*> softmax_layout = {}) {
  ElementwiseCall call{.name = "aclnnRingAttentionUpdate",
                       .tensors = std::move(tensors),
                       .texts = {layout}};
  if (softmax_layout) {
    call.name = "aclnnRingAttentionUpdateV2";
    call.texts.emplace_back(*softmax_layout);
  }
  return call;
}

}  // namespace flashacl::testing::ring
