// SPDX-License-Identifier: Apache-2.0
// The vector code of merges, for the best instruction set that this processor
// has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/element_format.h"

namespace flashacl::merge {

// Rows that are added at a time.
inline constexpr int kMaxTerms = 16;

// Channels of a block: its floats are 2 KiB and stay in L1.
inline constexpr int64_t kBlockChannels = 512;

// A row of a part, and its weight in the merged row.
struct Term {
  const std::byte* row = nullptr;
  float weight = 0;
};

// sums = the weighted sum of some rows' channels [0, count), or
// sums + it.
struct WeightedSum {
  cpu::ElementFormat format;
  const Term* terms = nullptr;
  int count = 0;      // of terms, 1 to kMaxTerms
  bool adds = false;  // to what is there
};

struct MergeKernels {
  // `sums` has kBlockChannels, aligned to 64 bytes.
  void (*sum)(const WeightedSum& of, int64_t channels, float* sums) = nullptr;
  // Rounds once.
  void (*store)(const cpu::ElementFormat& format, const float* sums,
                int64_t channels, std::byte* to) = nullptr;
  // `sum`, and `store`, of any number of channels, where all elements are dense
  // and of one type. If it `streams`, lines go past the caches, which is for
  // what is too large for them; a worker is done with them after `flush`.
  void (*merge)(const WeightedSum& of, int64_t channels, bool streams,
                std::byte* to) = nullptr;
  void (*flush)() = nullptr;
};

MergeKernels Kernels();

}  // namespace flashacl::merge
