// SPDX-License-Identifier: Apache-2.0
// Rows of floats, scaled, as rows of results, into the caches or past them.
//
// Results that caches do not hold (cpu/streams.h) go to memory line by line:
// a processor does not fetch lines that are written as a whole, and the caches
// keep what is read. What is no whole number of lines, or begins within one,
// is stored as usual.

#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/element_format.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TILE_STORE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_STORE_ROWS_INL_H_
#undef FLASHACL_CPU_TILE_STORE_ROWS_INL_H_
#else
#define FLASHACL_CPU_TILE_STORE_ROWS_INL_H_
#endif

#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/pair-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tile/store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// `count` rows of floats that become the elements `channels` of others.
struct FloatRows {
  ChannelRows from;  // the first of `channels` of each row
  int64_t count;
  Range channels;
  float scale = 1;
  bool streams = false;  // past the caches
};

// Dense elements from `to` on = from[0 .. count) times `scale`, rounded once.
template <DType kType, bool kStreams>
HWY_INLINE void StoreScaled(const float* HWY_RESTRICT from, int64_t count,
                            const Vector& scale, std::byte* to) {
  const auto at = [&](int64_t d) HWY_ATTR {
    return hn::Mul(hn::LoadU(kF, from + d), scale);
  };
  int64_t d = 0;
  for (; d + Width() <= count; d += Width()) {
    StoreInOrder<kType, kStreams>({at(d), at(d + Lanes())}, to, d);
  }
  if (d + Lanes() <= count) {
    if constexpr (kType == DType::kF32) {
      StoreVector<kStreams>(kF, at(d), reinterpret_cast<float*>(to) + d);
    } else {
      StoreFloats<kType>(kF, at(d), to, d);
    }
    d += Lanes();
  }
  for (; d < count; ++d) {
    StoreElement(kType, from[d] * hn::GetLane(scale), to + d * SizeOf(kType));
  }
}

HWY_INLINE bool AreLines(const std::byte* at, int64_t bytes) {
  return (reinterpret_cast<uintptr_t>(at) | static_cast<uintptr_t>(bytes)) %
             kLineBytes ==
         0;
}

// Stores rows to at(n), each.
template <typename At>
HWY_INLINE void StoreScaledRows(const ElementFormat& format,
                                const FloatRows& rows, At at) {
  const int64_t bytes = format.step * format.element_bytes;
  const int64_t count = rows.channels.size();
  const Vector scale = hn::Set(kF, rows.scale);
  const auto place = [&](int64_t n) HWY_ATTR {
    return at(n) + rows.channels.first * bytes;
  };
  bool done = false;
  WithVectorType(
      format.step == 1 ? format.dtype : DType::kNone, [&](auto type) HWY_ATTR {
        if constexpr (type() != DType::kI8) {
          for (int64_t n = 0; n < rows.count; ++n) {
            const float* const from = rows.from.at + n * rows.from.stride;
            std::byte* const to = place(n);
            if (rows.streams && AreLines(to, count * bytes)) {
              StoreScaled<type(), true>(from, count, scale, to);
            } else {
              if (n + kPrefetchRows < rows.count) {
                PrefetchRow(place(n + kPrefetchRows), count * bytes);
              }
              StoreScaled<type(), false>(from, count, scale, to);
            }
          }
          done = true;
        }
      });
  if (done) return;
  for (int64_t n = 0; n < rows.count; ++n) {
    const float* const from = rows.from.at + n * rows.from.stride;
    std::byte* const to = place(n);
    for (int64_t d = 0; d < count; ++d) {
      StoreElement(format.dtype, from[d] * rows.scale, to + d * bytes);
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_STORE_ROWS_INL_H_
