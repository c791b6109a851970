// SPDX-License-Identifier: Apache-2.0
// Gradients of a row of the query on matrix registers (tile/matrices-inl.h).
//
// Steps of listed keys are outer. Their products with the query are those of
// selections, bit for bit. Gradients of products, g, are two terms of bf16
// each; for dq, which sums over keys, words of two keys, which meet keys by
// channel; for what keys get, which is a sum over heads, words of two heads,
// which meet the query's. Where all of a head's g of a step are so small that
// terms might be lost, or some are no numbers, or a key is subnormal or so
// great that sums might overflow, the step goes the way of floats: that is
// decided by the row's list alone.

#include <algorithm>
#include <cstdint>

#include "indexer/gradient_kernel.h"

#if defined(FLASHACL_INDEXER_MATRIX_GRADIENT_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_INDEXER_MATRIX_GRADIENT_INL_H_
#undef FLASHACL_INDEXER_MATRIX_GRADIENT_INL_H_
#else
#define FLASHACL_INDEXER_MATRIX_GRADIENT_INL_H_
#endif

#include "cpu/tile/head_terms-inl.h"
#include "cpu/tile/matrix_products-inl.h"
#include "cpu/tile/matrix_values-inl.h"
#include "indexer/gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::indexer::HWY_NAMESPACE {

// The query of a row as panels and as words of two heads.
struct MatrixQuery {
  bool subnormal;  // some number of it
  bool fits;       // no product of words and terms is lost

  HWY_INLINE explicit MatrixQuery(const GradientRow& row)
      : subnormal(LoadQuery(row)), fits(true) {
    const int64_t head_blocks = CeilDiv(row.heads, cpu::kHeadBlock);
    const int64_t width = Width();
    for (int64_t head = 0; head < row.heads; head += cpu::kHeadBlock) {
      const int64_t count = std::min(row.heads - head, cpu::kHeadBlock);
      vectors::RangeOfFloats range;
      for (int64_t n = 0; n < CeilDiv(row.channels, width); ++n) {
        vectors::PairHeads(
            row.scratch.query_channels + (n * row.heads + head) * width, count,
            row.scratch.query_pairs +
                (n * head_blocks * vectors::kHeadPairs + head / 2) * width,
            range);
      }
      fits = fits && range.AreNormal() && range.Reaches(vectors::kSmallFactor);
    }
  }
};

// Listed keys of a step.
class MatrixStep {
 public:
  MatrixStep(const GradientRow& row, Range step) : row_(row), step_(step) {
    const std::byte** const at = row.scratch.places;
    Locate(row, step);
    const int64_t pairs = row.channels / 2;
    const bool any_subnormal =
        LoadKeyPairs(row.keys.key.format, at, count(), row.channels,
                     stride() / 2, row.scratch.key_pairs, subnormal_);
    float* const none = row.scratch.staging;
    std::fill_n(none, pairs, 0.0f);
    vectors::RangeOfPairs range;
    vectors::PackByChannel({row.keys.key, at, count(), row.channels, none}, 1,
                           kKeyChannelStride, row.scratch.key_channels, nullptr,
                           range);
    fits_ = !any_subnormal && range.AllBelow(64) && !range.AllBelow(kSmallKeys);
    keys_ = {row.scratch.key_pairs, stride() / 2, pairs, count(),
             any_subnormal ? subnormal_ : nullptr};
  }

  int64_t count() const { return step_.size(); }

  // Lets the keys of the next step be prefetched.
  void PrefetchNext(vectors::PrefetchQueue& prefetch) const {
    const Range next{step_.last,
                     std::min(step_.last + kStepKeys, row_.listed.count)};
    prefetch.Clear();
    if (next.empty()) return;
    Locate(row_, next);
    for (int64_t n = 0; n < next.size(); ++n) {
      prefetch.Add(row_.scratch.places[n], row_.channels * 2);
    }
    const int64_t panels = CeilDiv(row_.heads, int64_t{Width()});
    prefetch.Divide(panels * vectors::MatrixBlocks(count(), row_.channels / 2));
  }

  // Gradients of products, of all panels; whether terms of them do.
  template <class M>
  bool Multiply(const MatrixQuery& query, M& registers,
                vectors::PrefetchQueue& prefetch) const {
    const GradientSizes sizes(row_);
    const GradientScratch& scratch = row_.scratch;
    bool fit = fits_ && query.fits;
    for (int64_t first = 0; first < row_.heads; first += Width()) {
      float* const products = ProductsOf(first);
      MultiplyByMatrices(keys_, scratch.query_panels + first * sizes.channels,
                         query.subnormal, products, registers, prefetch);
      GradProducts(row_.listed.grad_scores + step_.first, count(),
                   scratch.weights + first, products,
                   scratch.grad_products + first, sizes.heads,
                   scratch.grad_weights + first);
      fit = fit && TermsFit(products) && TermsFit(products + Lanes());
    }
    return fit;
  }

  template <class M>
  void AddByMatrices(M& registers) const {
    const GradientSizes sizes(row_);
    vectors::PrefetchQueue nothing;
    for (int64_t first = 0; first < row_.heads; first += Width()) {
      float* const terms = ProductsOf(first);
      vectors::PackTerms<true>(terms, count());
      vectors::AddMatrixProducts(
          {row_.scratch.key_channels, kKeyChannelStride}, row_.channels,
          {terms, 2 * Width(), 2, Width()}, CeilDiv(count(), 2), false,
          row_.scratch.grad_query + first * sizes.channels, registers, nothing);
    }
    for (int64_t j = 0; j < count(); ++j) {
      float* const grads = row_.scratch.grad_products + j * sizes.heads;
      for (int64_t head = 0; head < row_.heads; head += cpu::kHeadBlock) {
        vectors::HeadTerms{grads + head,
                           std::min(row_.heads - head, cpu::kHeadBlock)}
            .Pack();
      }
    }
    for (int64_t c = 0; c < row_.channels; c += Width()) AddBlock(c, registers);
  }

  void AddByFloats() const {
    LoadKeys();
    for (int64_t first = 0; first < row_.heads; first += Width()) {
      AddPanelToQuery(row_, first, count(), ProductsOf(first));
    }
    AddStepOfKeys(row_, step_);
  }

 private:
  // Of keys that are all smaller, products with terms may be lost.
  static constexpr int kSmallKeys = -20;

  static void Locate(const GradientRow& row, Range step) {
    const std::byte** const at = row.scratch.places;
    row.keys.LocateListed(
        {row.listed.columns + step.first, static_cast<size_t>(step.size())}, at,
        at + kStepKeys, at + 2 * kStepKeys);
  }

  int64_t stride() const { return PaddedChannels(row_.channels); }

  float* ProductsOf(int64_t first) const {
    return row_.scratch.products + first * (kStepKeys + kSpare);
  }

  // As floats; blocks pass into rows of zeros.
  void LoadKeys() const {
    Locate(row_, step_);
    for (int64_t n = 0; n < count() + kSpare; ++n) {
      float* const key = row_.scratch.keys + n * stride();
      std::fill_n(key, stride(), 0.0f);
      if (n >= count() || row_.scratch.places[n] == nullptr) continue;
      vectors::LoadRow(row_.keys.key.format, row_.scratch.places[n],
                       row_.channels, key);
    }
  }

  // Whether no term of g is lost, of the heads of half a panel: no head's are
  // all so small.
  bool TermsFit(const float* half) const {
    vectors::RangeOfFloats range;
    for (int64_t j = 0; j < count(); ++j) {
      range.Add(hn::Load(kF, half + j * Width()));
    }
    return range.AreNormal() && range.EachLaneReaches(vectors::kSmallGrad);
  }

  // What keys get of the channels from `c` on.
  template <class M>
  void AddBlock(int64_t c, M& registers) const {
    const GradientSizes sizes(row_);
    const int64_t head_blocks = CeilDiv(row_.heads, cpu::kHeadBlock);
    const vectors::MatrixRowsOf rows{row_.scratch.grad_products, sizes.heads, 2,
                                     vectors::kHeadPairs, cpu::kHeadBlock};
    const vectors::MatrixPanel panel{
        row_.scratch.query_pairs + c * head_blocks * vectors::kHeadPairs,
        Width()};
    vectors::PrefetchQueue nothing;
    constexpr int64_t kRows = 2 * vectors::kMatrixRows;
    for (int64_t j = 0; j < count(); j += kRows) {
      float* const added = row_.added + (step_.first + j) * sizes.sums + c;
      if (j + kRows <= count()) {
        vectors::SumBlock<true, true>(rows, j, panel, head_blocks, true,
                                      {added, sizes.sums}, registers, nothing);
        continue;
      }
      HWY_ALIGN float sums[kRows * Width()];
      vectors::SumBlock<true, true>(rows, j, panel, head_blocks, true,
                                    {sums, Width()}, registers, nothing);
      for (int64_t r = 0; j + r < count(); ++r) {
        std::copy_n(sums + r * Width(), Width(), added + r * sizes.sums);
      }
    }
  }

  const GradientRow& row_;
  const Range step_;
  bool subnormal_[kStepKeys];
  bool fits_;
  KeyPairs keys_;
};

inline void DifferentiateByMatrices(const GradientRow& row) {
  const MatrixQuery query(row);
  vectors::PrefetchQueue prefetch;
  vectors::Matrices registers;
  vectors::Matrices::Configure();
  for (int64_t j = 0; j < row.listed.count; j += kStepKeys) {
    const MatrixStep step(row, {j, std::min(j + kStepKeys, row.listed.count)});
    step.PrefetchNext(prefetch);
    if (step.Multiply(query, registers, prefetch)) {
      step.AddByMatrices(registers);
    } else {
      step.AddByFloats();
    }
  }
  vectors::Matrices::Release();
  StoreGradients(row);
}

}  // namespace flashacl::indexer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_INDEXER_MATRIX_GRADIENT_INL_H_
