// SPDX-License-Identifier: Apache-2.0
// One item of forward work over listed keys: one position, some of its heads,
// and the columns its list names.
#pragma once

#include <cstdint>

#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// As a tile of the forward direction whose keys are the listed ones, all of
// them seen: tile.cols is {0, count}.
struct TopKTile {
  ForwardTile tile;
  const int64_t* columns = nullptr;  // tile.cols.size() of them
  // Rows of values; keys' where values are the keys.
  const float* values = nullptr;
  int64_t value_stride = 0;
};

}  // namespace flashacl::cpu
