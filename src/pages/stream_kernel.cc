// SPDX-License-Identifier: Apache-2.0
// Copies past the caches, compiled for every instruction set.
#include "pages/stream_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pages/stream_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/tile/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::pages::HWY_NAMESPACE {

using cpu::HWY_NAMESPACE::StreamBytes;
using cpu::HWY_NAMESPACE::StreamHalves;

void CopyLines(const std::byte* from, int64_t bytes, std::byte* to) {
  StreamBytes(from, bytes, to);
}

void JoinLines(std::span<const RowPair> rows, NextRows& next,
               const HalfLines& lines) {
  const bool two_rows = lines.two_rows;
  const size_t step = two_rows ? 2 : 1;
  for (size_t r = 0; r + step <= rows.size(); r += step) {
    const std::byte* first = rows[r].from + lines.from;
    const std::byte* second =
        two_rows ? rows[r + 1].from + lines.from : first + lines.second;
    std::byte* to = rows[r].to + lines.to;
    next.PrefetchLines(lines.count);
    for (int64_t n = 0; n < lines.count; ++n) {
      StreamHalves(first, second, to);
      first += lines.from_step;
      second += lines.from_step;
      to += lines.to_step;
    }
  }
}

void Flush() { hwy::FlushStream(); }

StreamKernels StreamTable() { return {CopyLines, JoinLines, Flush}; }

}  // namespace flashacl::pages::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flashacl::pages {
HWY_EXPORT(StreamTable);
StreamKernels Kernels() { return HWY_DYNAMIC_DISPATCH(StreamTable)(); }
}  // namespace flashacl::pages
#endif
