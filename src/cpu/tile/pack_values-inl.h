// SPDX-License-Identifier: Apache-2.0
// Values of a step by blocks of channels (PackedValues): floats, or words of
// two neighbouring keys. The loop over keys is the caller's, but for dense
// rows, of which some go together; channels lie in lanes.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/range.h"
#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_TILE_PACK_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_PACK_VALUES_INL_H_
#undef FLASHACL_CPU_TILE_PACK_VALUES_INL_H_
#else
#define FLASHACL_CPU_TILE_PACK_VALUES_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Row `j` of a step's values; see PackedValues.
HWY_INLINE void PackValues(const float* HWY_RESTRICT row, int64_t v_dim,
                           int64_t j, const PackedValues& values) {
  ForBlocks(v_dim, [&](int64_t d, auto size) HWY_ATTR {
    float* const to = values.at + d * values.keys + j * size();
    // Whole vectors: what passes the end is overwritten by the next key, and
    // there is room after the last key of a block.
    for (ptrdiff_t c = 0; c < size(); c += Lanes()) {
      hn::StoreU(hn::LoadU(kF, row + d + c), kF, to + c);
    }
  });
}

// Packs rows j to j + kRows - 1 from where they lie, by vectors of `d`: at(row,
// n) has those of a row from channel n on. Returns the greatest of their
// patterns without signs. A row of floats between them would be read as parts
// of two vectors that were just stored, which waits (docs/notes/0072). Blocks
// are outer: with AVX-512 what four rows have of one is whole lines
// (docs/notes/0074).
template <int kRows, class D, typename At>
HWY_INLINE int32_t PackBlocks(D d, const std::byte* const* rows, int64_t v_dim,
                              int64_t j, const PackedValues& values, At at) {
  const hn::RebindToSigned<D> w;
  VectorOf<hn::RebindToSigned<D>> most = hn::Zero(w);
  ForBlocks(v_dim, [&](int64_t first, auto size) HWY_ATTR {
    float* const to = values.at + first * values.keys + j * size();
    for (int n = 0; n < kRows; ++n) {
      const std::byte* const row = rows[n];
      for (ptrdiff_t c = 0; c < size(); c += LanesOf(d)) {
        const auto x = at(row, first + c);
        most = hn::Max(hn::BitCast(w, hn::Abs(x)), most);
        hn::StoreU(x, d, to + n * size() + c);
      }
    }
  });
  return hn::GetLane(hn::MaxOfLanes(w, most));
}

// Whether blocks are stored by fours. A longer vector passes the end of its
// block, and most such stores reach two lines. On ARM vectors have four lanes,
// or were not measured.
inline constexpr bool kPacksQuads = HWY_ARCH_X86 && kUnit % 4 == 0;

// The same of dense rows, which have Lanes() elements or more.
template <DType kType, int kRows>
HWY_INLINE int32_t PackRowsOf(const std::byte* const* rows, int64_t v_dim,
                              int64_t j, const PackedValues& values) {
  if constexpr (kPacksQuads) {
    // Blocks end with the row then, so that no four channels pass its end.
    if (v_dim % kUnit == 0) {
      return PackBlocks<kRows>(kQ, rows, v_dim, j, values,
                               [](const std::byte* row, int64_t n) HWY_ATTR {
                                 return FloatsAt<kType>(kQ, row, n);
                               });
    }
  }
  return PackBlocks<kRows>(kF, rows, v_dim, j, values,
                           [&](const std::byte* row, int64_t n) HWY_ATTR {
                             return FloatsWithin<kType>(row, n, v_dim);
                           });
}

// The same of the rows `some` of a step.
template <DType kType>
HWY_NOINLINE int32_t PackRows(const std::byte* const* rows, Range some,
                              int64_t v_dim, const PackedValues& values) {
  int32_t greatest = 0;
  int64_t j = some.first;
  for (; j + 4 <= some.last; j += 4) {
    greatest =
        std::max(greatest, PackRowsOf<kType, 4>(rows + j, v_dim, j, values));
  }
  for (; j < some.last; ++j) {
    greatest =
        std::max(greatest, PackRowsOf<kType, 1>(rows + j, v_dim, j, values));
  }
  return greatest;
}

// Values of bf16, as floats, by pairs of keys: the first is the upper half of
// its word. Of an odd number the last has 0 beside it.
class PairsOfKeys {
 public:
  HWY_INLINE PairsOfKeys(const ScoreScratch& scratch, int64_t v_dim,
                         const PackedValues& values)
      : rows_{scratch.staging, scratch.staging_stride},
        v_dim_(v_dim),
        values_(values) {}

  // Where the value of key `j` goes.
  HWY_INLINE float* Row(int64_t j) const {
    return rows_.first + j % 2 * rows_.stride;
  }

  // That value is there; it is the last of its step, or not.
  HWY_INLINE void Pack(int64_t j, bool last) {
    // Blocks end after the last channel.
    std::fill(Row(j) + v_dim_, Row(j) + BlockEnd(v_dim_) + Lanes(), 0.0f);
    if (j % 2 == 0 && !last) return;
    if (j % 2 == 0) std::fill_n(Row(1), BlockEnd(v_dim_) + Lanes(), 0.0f);
    const hn::RebindToUnsigned<Floats> u;
    ForBlocks(v_dim_, [&](int64_t d, auto size) HWY_ATTR {
      float* const to = values_.at + d * values_.keys + j / 2 * size();
      for (ptrdiff_t c = 0; c < size(); c += Lanes()) {
        const auto upper = hn::BitCast(u, hn::LoadU(kF, Row(0) + d + c));
        const auto lower = hn::BitCast(u, hn::LoadU(kF, Row(1) + d + c));
        const Vector words =
            hn::BitCast(kF, hn::Or(upper, hn::ShiftRight<16>(lower)));
        small_.Add(words);
        hn::StoreU(words, kF, to + c);
      }
    });
  }

  // Products of some with probs that matter may be subnormal.
  HWY_INLINE bool tiny() const { return small_.AnyBelow(-100); }

 private:
  FourRows rows_;
  int64_t v_dim_;
  PackedValues values_;
  LeastOfPairs<Floats> small_;
};

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_PACK_VALUES_INL_H_
