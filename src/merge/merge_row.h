// SPDX-License-Identifier: Apache-2.0
// How both merges write rows: one kernel does all of it where all rows are
// dense and of one type, else each goes block by block of floats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "cpu/streams.h"
#include "merge/merge_kernel.h"

namespace flashacl::merge {

// What a row of a part adds to the merged row. What has no weight may hold
// anything, and is not read.
struct PartRow {
  const cpu::ElementFormat* format = nullptr;
  const std::byte* row = nullptr;
  float weight = 0;
};

// One run.
class RowMerge {
 public:
  // Of `rows` rows in all; `out` is where these begin.
  RowMerge(int64_t rows, int64_t channels, const cpu::ElementFormat& out_format,
           const std::byte* out)
      : channels_(channels),
        out_format_(out_format),
        out_(out),
        fused_(out_format.step == 1),
        streams_(cpu::Streams(rows * channels * out_format.element_bytes)) {}

  // Before any row is merged: a part, and where its rows begin.
  void Add(const cpu::ElementFormat& format, const std::byte* first) {
    fused_ = fused_ && ++parts_ <= kMaxTerms && format == out_format_;
    // What is merged in place is in the cache when it is written.
    streams_ = streams_ && first != out_;
  }

  // Whether one kernel merges the rows of all parts.
  bool fused() const { return fused_; }

  // Such rows; of which parts and results are given.
  void Merge(MergedRows rows) const {
    // Where there are no channels there is no memory of rows.
    if (channels_ == 0) return;
    rows.dtype = out_format_.dtype;
    rows.channels = channels_;
    rows.streams = streams_;
    kernels_.merge(rows);
  }

  // Any row, to `to`, of parts [0, count), of which `part(n)` is a PartRow; 0
  // where none has a weight.
  template <typename Part>
  void MergeRow(size_t count, const Part& part, std::byte* to) const {
    for (int64_t d = 0; d < channels_; d += kBlockChannels) {
      const int64_t channels = std::min(kBlockChannels, channels_ - d);
      alignas(64) float sums[kBlockChannels];
      SumBlock(count, part, d, std::span(sums).first(channels));
      kernels_.store(out_format_, sums, channels, At(out_format_, to, d));
    }
  }

  // A worker is done with its rows.
  void Finish() const {
    if (streams_) kernels_.flush();
  }

 private:
  // The sum of channels from `first` on.
  template <typename Part>
  void SumBlock(size_t count, const Part& part, int64_t first,
                std::span<float> sums) const {
    Term terms[kMaxTerms];
    WeightedSum sum;
    sum.terms = terms;
    const auto add = [&] {
      kernels_.sum(sum, std::ssize(sums), sums.data());
      sum.count = 0;
      sum.adds = true;
    };
    for (size_t n = 0; n < count; ++n) {
      const PartRow one = part(n);
      if (one.weight == 0) continue;
      const bool full = sum.count == kMaxTerms;
      if (full || (sum.count > 0 && *one.format != sum.format)) add();
      sum.format = *one.format;
      terms[sum.count++] = {At(*one.format, one.row, first), one.weight};
    }
    if (sum.count > 0) add();
    if (!sum.adds) std::ranges::fill(sums, 0.0f);
  }

  template <typename Byte>
  static Byte* At(const cpu::ElementFormat& format, Byte* row, int64_t d) {
    return row + d * format.step * format.element_bytes;
  }

  const int64_t channels_;
  const cpu::ElementFormat out_format_;
  const std::byte* const out_;
  const MergeKernels kernels_ = Kernels();
  int parts_ = 0;
  bool fused_;
  bool streams_;  // past the caches
};

}  // namespace flashacl::merge
