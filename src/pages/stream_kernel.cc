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

void CopyLines(const std::byte* from, int64_t bytes, std::byte* to) {
  StreamBytes(from, bytes, to);
}

void JoinLines(const HalfLines& lines) {
  HalfLines at = lines;
  for (int64_t n = 0; n < lines.count; ++n) {
    StreamBytes<kHalfLine>(at.first, kHalfLine, at.to);
    StreamBytes<kHalfLine>(at.second, kHalfLine, at.to + kHalfLine);
    at.first += lines.from_step;
    at.second += lines.from_step;
    at.to += lines.to_step;
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
