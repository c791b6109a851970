// SPDX-License-Identifier: Apache-2.0
// Dropout: masks of random bits, and elements that a mask keeps. A set bit
// keeps; bit g of a mask is bit g % 8, counted from the lowest, of byte g / 8.
//   mask  bit g keeps if number g of a Philox generator is not below prob
//   do    out[g] = bit g ? self[g] / (1 - prob) : 0, g in order of the shape
// Bits are a function of seed, offset, prob and g alone: the same for any
// number of workers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "elementwise/elementwise.h"
#include "plan/computation.h"

namespace flashacl::dropout {

// The bytes of a mask: elements of a tensor, in order of its shape.
struct MaskTensor {
  size_t argument = 0;  // whose data it is, of those that a run is given
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

// A number that a run reads.
struct DeviceNumber {
  size_t argument = 0;
  int64_t offset = 0;  // elements
};

struct Generator {
  double prob = 0;  // to drop, in [0, 1]
  int64_t seed = 0;
  int64_t offset = 0;
  std::optional<DeviceNumber> device_seed = {};    // instead of seed
  std::optional<DeviceNumber> device_offset = {};  // added to offset
};

// Bytes of the mask of so many elements, as operators pass masks: a multiple of
// 16.
int64_t MaskBytes(int64_t elements);

// The mask has a multiple of 16 bytes.
std::shared_ptr<const Computation> MakeMask(Generator generator,
                                            MaskTensor mask);

// What is kept of a tensor.
struct Selection {
  std::vector<int64_t> extents;    // out's: at most 8, none of them 0
  elementwise::Operand self;       // of a float type
  elementwise::Operand out;        // may be self, element for element
  std::optional<MaskTensor> mask;  // nothing is kept without one
  float amount = 1;
  bool divides = true;  // by the amount; else multiplies by it
};

std::shared_ptr<const Computation> MakeSelection(Selection selection);

// Makes selection.mask, then selects by it.
std::shared_ptr<const Computation> MakeDropout(Generator generator,
                                               Selection selection);

}  // namespace flashacl::dropout
