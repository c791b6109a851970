// SPDX-License-Identifier: Apache-2.0
// What both directions do with products of queries and keys.

#include <cstdint>

#if defined(FLASHACL_INDEXER_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_INDEXER_SCORE_INL_H_
#undef FLASHACL_INDEXER_SCORE_INL_H_
#else
#define FLASHACL_INDEXER_SCORE_INL_H_
#endif

#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/pairs-inl.h"
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

// max(0, x), where NaN stays: of the two a maximum may give either.
HWY_INLINE Vector Relu(const Vector& x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(kF)), x);
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

}  // namespace flashacl::indexer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_INDEXER_SCORE_INL_H_
