// SPDX-License-Identifier: Apache-2.0
// A tile of few rows as plain numbers and addresses: all that the vector code
// gets.
#pragma once

#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {

// Scratch memory for one tile at a time, besides ForwardScratch.
struct DecodeScratch {
  float* key_offsets;  // [row]: what key offsets add to dot products
};

struct DecodeArgs {
  ForwardTile tile;
  DecodeScratch scratch{};
};

}  // namespace flashacl::cpu
