// SPDX-License-Identifier: Apache-2.0
// What both directions do with products of queries and keys.

#include <algorithm>
#include <cstdint>

#include "cpu/element_format.h"

#if defined(FLASHACL_INDEXER_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_INDEXER_SCORE_INL_H_
#undef FLASHACL_INDEXER_SCORE_INL_H_
#else
#define FLASHACL_INDEXER_SCORE_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/matrix_products-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::indexer::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace vectors = flashacl::cpu::HWY_NAMESPACE;
using vectors::kF;
using vectors::kW;
using vectors::Lanes;
using vectors::Vector;
using vectors::Width;

// max(0, x), where NaN stays.
HWY_INLINE Vector Relu(const Vector& x) {
#if HWY_ARCH_X86_64 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  return hn::Max(hn::Zero(kF), x);  // x, if either is a NaN
#else
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(kF)), x);
#endif
}

// A panel of rows of floats or pairs, `stride` apart, which have room up to the
// next multiple of 4.
inline void PackPanel(const float* HWY_RESTRICT rows, int64_t stride,
                      int64_t words, float* HWY_RESTRICT panel) {
  vectors::PanelFromRows(RoundUp(words, 4), panel,
                         [&](int64_t r, int64_t k) HWY_ATTR {
                           return hn::LoadU(vectors::kQ, rows + r * stride + k);
                         });
}

// The heads of a row of the query as panels of pairs, `panel_floats` apart;
// whether some number is subnormal. Lanes without a head are zeros. `staging`
// has room for a panel's rows, `stride` floats apart.
inline bool PackHeads(const cpu::TensorRows& query, int64_t position,
                      int64_t heads, int64_t channels, int64_t stride,
                      float* HWY_RESTRICT staging, int64_t panel_floats,
                      float* HWY_RESTRICT panels) {
  const int64_t pairs = channels / 2;
  vectors::LeastOfPairs<vectors::Floats> subnormals;
  for (int64_t first = 0; first < heads; first += Width()) {
    for (int64_t n = 0; n < Width(); ++n) {
      float* const staged = staging + n * stride;
      if (first + n < heads) {
        vectors::LoadPairs(query.format, query.At(position, first + n),
                           channels, staged, subnormals);
      } else {
        std::fill_n(staged, pairs, 0.0f);
      }
    }
    PackPanel(staging, stride, pairs, panels);
    panels += panel_floats;
  }
  return subnormals.AnySubnormal();
}

// Loads keys as rows of pairs, `stride` apart; zeros where there is none.
// subnormal[key]: whether some number of it is; the answer: of any.
inline bool LoadKeyPairs(const cpu::ElementFormat& format,
                         const std::byte* const* at, int64_t count,
                         int64_t channels, int64_t stride,
                         float* HWY_RESTRICT rows, bool* subnormal) {
  bool any = false;
  for (int64_t n = 0; n < count; ++n) {
    float* const row = rows + n * stride;
    vectors::LeastOfPairs<vectors::Floats> subnormals;
    if (at[n] != nullptr) {
      vectors::LoadPairs(format, at[n], channels, row, subnormals);
    } else {
      std::fill_n(row, channels / 2, 0.0f);
    }
    subnormal[n] = subnormals.AnySubnormal();
    any = any || subnormal[n];
  }
  return any;
}

// Keys as rows of pairs, and which of them have a subnormal number; null: none.
struct KeyPairs {
  const float* rows;
  int64_t stride, pairs, count;
  const bool* subnormal;
};

// products[key, lane] of a key and the heads of a panel. Where either has a
// subnormal number, by multiply-adds: who that is depends on nobody else.
// Memory has room for whole matrices of keys.
template <class M>
HWY_NOINLINE void MultiplyByMatrices(const KeyPairs& keys, const float* panel,
                                     bool subnormal_heads,
                                     float* HWY_RESTRICT products, M& m,
                                     vectors::PrefetchQueue& prefetch) {
  if (!subnormal_heads) {
    vectors::AddMatrixProducts({keys.rows, keys.stride}, keys.count,
                               {panel, Width()}, keys.pairs, true, products, m,
                               prefetch);
  }
  if (!subnormal_heads && keys.subnormal == nullptr) return;
  for (int64_t j = 0; j < keys.count; ++j) {
    if (!subnormal_heads && !keys.subnormal[j]) continue;
    vectors::Sums<1> sums;
    sums.Clear();
    vectors::AddRows<vectors::OfPairs>(keys.rows + j * keys.stride, keys.stride,
                                       panel, keys.pairs, sums);
    sums.Store(products + j * Width());
  }
}

}  // namespace flashacl::indexer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_INDEXER_SCORE_INL_H_
