// SPDX-License-Identifier: Apache-2.0
// The vector code of dropout, for the best instruction set that this processor
// has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/element_format.h"

namespace flashacl::dropout {

// What every bit of a mask is a function of, beside its number.
struct MaskDraw {
  uint64_t seed = 0;
  uint64_t offset = 0;
  // A number of 23 random bits keeps if it is not below; 2^23 drops all.
  int32_t threshold = 0;
};

// Bits that are drawn together, 32 blocks of Philox: what masks are multiples
// of.
inline constexpr int64_t kUnitBits = 128;
inline constexpr int64_t kUnitBytes = kUnitBits / 8;

// Elements of a block that is selected: its floats are 2 KiB and stay in L1.
inline constexpr int64_t kSelectBlock = 512;

// out = bit ? self / amount, or self * amount : 0
struct SelectBlock {
  cpu::ElementFormat self, out;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t count = 0;               // at most kSelectBlock
  const uint32_t* bits = nullptr;  // element i: bit i % 32 of word i / 32
  float amount = 1;
  bool divides = true;
  // Whole lines of the result go past the caches, which is for what is too
  // large for them and not in place; a worker is done with them after `flush`.
  bool streams = false;
};

struct DropoutKernels {
  // Units [first, first + count) of a mask, from `to` on.
  void (*draw)(const MaskDraw& of, int64_t first, int64_t count,
               std::byte* to) = nullptr;
  // May be in place.
  void (*select)(const SelectBlock& block) = nullptr;
  void (*flush)() = nullptr;
};

DropoutKernels Kernels();

}  // namespace flashacl::dropout
