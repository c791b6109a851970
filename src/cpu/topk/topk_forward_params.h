// SPDX-License-Identifier: Apache-2.0
// One item of forward work over listed keys: one position, some of its heads,
// and the columns its list names.
#pragma once

#include <cstdint>

#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// A run's scratch memory for one tile at a time, besides ForwardScratch.
struct TopKForwardScratch {
  int64_t* columns;  // that a split of a list names
  float* values;     // [key, value_stride]; the keys where values are keys
  int64_t value_stride = 0;
};

// As a tile of the forward direction whose keys are the listed ones, all of
// them seen: tile.cols is {0, count}, and scratch.columns has as many.
struct TopKTile {
  ForwardTile tile;
  TopKForwardScratch scratch{};

  void UseKeysAsValues() {
    scratch.values = tile.scratch.keys;
    scratch.value_stride = tile.scratch.key_stride;
  }
};

}  // namespace flashacl::cpu
