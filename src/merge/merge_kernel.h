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

// Rows that lie alike: `inner` of them, one after the other, and so on `outer`
// times.
struct RowsOfPart {
  const std::byte* first = nullptr;
  int64_t outer_bytes = 0;
  int64_t inner_bytes = 0;
  const float* weights = nullptr;  // one a row; of 0: the row is not read
};

// Rows of some parts become as many merged rows. All elements are dense and of
// one type.
struct MergedRows {
  DType dtype = DType::kF32;
  int64_t channels = 0;
  int64_t outer = 1;
  int64_t inner = 0;
  const RowsOfPart* parts = nullptr;
  int count = 0;  // of parts, 1 to kMaxTerms
  std::byte* to = nullptr;
  int64_t to_outer_bytes = 0;
  int64_t to_inner_bytes = 0;
  // Whole lines go past the caches, which is for what is too large for them; a
  // worker is done with them after `flush`.
  bool streams = false;
};

struct MergeKernels {
  // `sums` has kBlockChannels, aligned to 64 bytes.
  void (*sum)(const WeightedSum& of, int64_t channels, float* sums) = nullptr;
  // Rounds once.
  void (*store)(const cpu::ElementFormat& format, const float* sums,
                int64_t channels, std::byte* to) = nullptr;
  // The bits of `sum` and `store`; 0 where no part has a weight.
  void (*merge)(const MergedRows& rows) = nullptr;
  void (*flush)() = nullptr;
};

MergeKernels Kernels();

}  // namespace flashacl::merge
