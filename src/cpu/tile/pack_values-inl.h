// SPDX-License-Identifier: Apache-2.0
// Values of a step by blocks of channels (PackedValues): floats, or words of
// two neighbouring keys. The loop over keys is the caller's, channels lie in
// lanes.

#include <algorithm>
#include <cstddef>
#include <cstdint>

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

// The same of elements of memory, dense and so many or more than there are
// lanes; their patterns raise `greatest`. A row of floats between them would be
// read as parts of two vectors that were just stored, which waits
// (docs/notes/0072).
template <DType kType>
HWY_INLINE void PackElements(const std::byte* HWY_RESTRICT row, int64_t v_dim,
                             int64_t j, const PackedValues& values,
                             VectorOf<Words>& greatest) {
  VectorOf<Words> most = greatest;
  ForBlocks(v_dim, [&](int64_t d, auto size) HWY_ATTR {
    float* const to = values.at + d * values.keys + j * size();
    for (ptrdiff_t c = 0; c < size(); c += Lanes()) {
      const Vector x = FloatsWithin<kType>(row, d + c, v_dim);
      most = hn::Max(hn::BitCast(kW, hn::Abs(x)), most);
      hn::StoreU(x, kF, to + c);
    }
  });
  greatest = most;
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
