// SPDX-License-Identifier: Apache-2.0
// Gradients, a row of the query at a time.
//
// Heads of the row lie in the lanes of panels, listed keys and channels are
// scalars. Steps of listed keys are outer: their rows are loaded once; then,
// panel by panel,
//   products q k,  dw += ds max(0, products),  g = ds w where products > 0,
//   dq += g k
// so that gradients of products stay in L1. dq stays in scratch memory until
// the list ends. Then what the row adds to its keys, sum_h g q, with channels
// in lanes and g as scalars: it goes to memory that is the row's, and is added
// to sums of keys by whoever owns these, row after row. Products are those of
// the forward direction, bit for bit, so that `products > 0` is; of bf16 they
// may be sums of pairs of channels (tile/pairs-inl.h), as there: then what is
// below 2^-126 may be 0 in one of both alone (docs/notes/0024).

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "indexer/gradient_kernel.h"

#if defined(FLASHACL_INDEXER_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_INDEXER_GRADIENT_INL_H_
#undef FLASHACL_INDEXER_GRADIENT_INL_H_
#else
#define FLASHACL_INDEXER_GRADIENT_INL_H_
#endif

#include "cpu/tile/store-inl.h"
#include "indexer/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::indexer::HWY_NAMESPACE {

// Strides of scratch memory.
struct GradientSizes {
  explicit GradientSizes(const GradientRow& row)
      : channels(PaddedChannels(row.channels)),
        sums(SumChannels(row.channels)),
        heads(RoundUp(row.heads, kMaxLanes)) {}

  int64_t channels, sums, heads;
};

// Both copies of the row's query; whether they are pairs of which some number
// is subnormal.
inline bool LoadQuery(const GradientRow& row) {
  const GradientSizes sizes(row);
  const GradientScratch& scratch = row.scratch;
  const int64_t width = Width();
  for (int64_t first = 0; first < row.heads; first += width) {
    for (int64_t n = 0; n < width; ++n) {
      float* const staged = scratch.staging + n * sizes.channels;
      std::fill_n(staged, sizes.channels, 0.0f);
      if (first + n >= row.heads) continue;
      vectors::LoadRow(row.query, row.position, first + n, row.channels,
                       staged);
      float* to = scratch.query_channels + (first + n) * width;
      for (int64_t c = 0; c < sizes.sums; c += width) {
        const int64_t count = std::min(width, sizes.sums - c);
        std::copy_n(staged + c, count, to);
        std::fill_n(to + count, width - count, 0.0f);
        to += row.heads * width;
      }
    }
    if (row.dots != cpu::PairDots::kNone) continue;  // panels of pairs
    PackPanel(scratch.staging, sizes.channels, row.channels,
              scratch.query_panels + first * sizes.channels);
  }
  std::fill_n(scratch.weights, sizes.heads, 0.0f);
  vectors::LoadRow(row.weights, row.position, 0, row.heads, scratch.weights);
  std::fill_n(scratch.grad_weights, sizes.heads, 0.0f);
  std::fill_n(scratch.grad_query, sizes.heads * sizes.channels, 0.0f);
  if (row.dots == cpu::PairDots::kNone) return false;
  return PackHeads(row.query, row.position, row.heads, row.channels,
                   sizes.channels, scratch.staging, sizes.channels * Width(),
                   scratch.query_panels);
}

// Rows that blocks pass into are zeros. Whether some number of pairs is
// subnormal.
inline bool LoadStep(const GradientRow& row, Range step) {
  const int64_t stride = PaddedChannels(row.channels);
  const bool pairs = row.dots != cpu::PairDots::kNone;
  vectors::LeastOfPairs<vectors::Floats> subnormals;
  const std::byte** const at = row.scratch.places;
  row.keys.LocateListed(
      {row.listed.columns + step.first, static_cast<size_t>(step.size())}, at,
      at + kStepKeys, at + 2 * kStepKeys);
  for (int64_t n = 0; n < step.size() + kSpare; ++n) {
    float* const key = row.scratch.keys + n * stride;
    const bool here = n < step.size() && at[n] != nullptr;
    if (here) {
      vectors::LoadRow(row.keys.key.format, at[n], row.channels, key);
    }
    const int64_t loaded = here ? row.channels : 0;
    std::fill_n(key + loaded, stride - loaded, 0.0f);
    if (!pairs) continue;
    float* const key_pairs = row.scratch.key_pairs + n * stride / 2;
    if (here) {
      vectors::LoadPairs(row.keys.key.format, at[n], row.channels, key_pairs,
                         subnormals);
    } else {
      std::fill_n(key_pairs, row.channels / 2, 0.0f);
    }
  }
  return subnormals.AnySubnormal();
}

// Of channels, or pairs of them.
template <int kRows, class Product>
HWY_NOINLINE void Multiply(const float* HWY_RESTRICT keys, int64_t stride,
                           const float* HWY_RESTRICT panel, int64_t words,
                           float* HWY_RESTRICT products) {
  vectors::Sums<kRows> sums;
  sums.Clear();
  vectors::AddRows<Product>(keys, stride, panel, words, sums);
  sums.Store(products);
}

// Of `count` keys of a step and one panel of the query.
inline void MultiplyStep(const GradientRow& row, int64_t count,
                         const float* panel, bool subnormal) {
  const GradientScratch& scratch = row.scratch;
  const int64_t stride = PaddedChannels(row.channels);
  vectors::WithProduct<true>(
      row.dots, [&] { return subnormal; },
      [&](auto product) HWY_ATTR {
        using Product = decltype(product);
        constexpr bool kFloats = std::is_same_v<Product, vectors::OfFloats>;
        constexpr int64_t kOfWord = kFloats ? 1 : 2;
        const float* const keys = kFloats ? scratch.keys : scratch.key_pairs;
        vectors::ForBlocks(count, [&](int64_t j, auto size) HWY_ATTR {
          Multiply<size(), Product>(
              keys + j * stride / kOfWord, stride / kOfWord, panel,
              row.channels / kOfWord, scratch.products + j * Width());
        });
      });
}

// Products of `count` keys become their gradients, here and in a row per key.
inline void GradProducts(const float* HWY_RESTRICT grad_scores, int64_t count,
                         const float* HWY_RESTRICT weights,
                         float* HWY_RESTRICT products,
                         float* HWY_RESTRICT grad_products, int64_t stride,
                         float* HWY_RESTRICT grad_weights) {
  for (int64_t lane = 0; lane < Width(); lane += Lanes()) {
    const Vector weight = hn::Load(kF, weights + lane);
    Vector sum = hn::Load(kF, grad_weights + lane);
    for (int64_t j = 0; j < count; ++j) {
      float* const at = products + j * Width() + lane;
      const Vector product = hn::Load(kF, at);
      const Vector ds = hn::Set(kF, grad_scores[j]);
      sum = hn::MulAdd(ds, Relu(product), sum);
      const Vector grad = hn::IfThenElseZero(hn::Lt(hn::Zero(kF), product),
                                             hn::Mul(ds, weight));
      hn::Store(grad, kF, at);
      hn::Store(grad, kF, grad_products + j * stride + lane);
    }
    hn::Store(sum, kF, grad_weights + lane);
  }
}

template <int kRows>
HWY_NOINLINE void AddToQuery(const float* HWY_RESTRICT keys, int64_t stride,
                             const float* HWY_RESTRICT grad_products,
                             int64_t count, float* HWY_RESTRICT grad_query) {
  vectors::Sums<kRows> sums;
  sums.Load(grad_query);
  vectors::AddColumnsApart(keys, stride, grad_products, count, sums);
  sums.Store(grad_query);
}

template <int kRows>
HWY_NOINLINE void AddOfKeys(const float* HWY_RESTRICT grad_products,
                            int64_t stride, const float* HWY_RESTRICT query,
                            int64_t heads, int64_t count, int64_t added_stride,
                            int64_t channels, float* HWY_RESTRICT added) {
  vectors::Sums<kRows> sums;
  sums.Clear();
  vectors::AddRows(grad_products, stride, query, heads, sums);
  HWY_UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    if (r >= count) break;
    hn::StoreU(sums.at[r][0], kF, added + r * added_stride);
    if (channels <= Lanes()) continue;
    hn::StoreU(sums.at[r][1], kF, added + r * added_stride + Lanes());
  }
}

// What `count` keys of a step, as floats, give the panel of heads that begins
// with `first`.
inline void AddPanelToQuery(const GradientRow& row, int64_t first,
                            int64_t count, const float* grad_products) {
  const int64_t stride = PaddedChannels(row.channels);
  float* const grad = row.scratch.grad_query + first * stride;
  vectors::ForBlocks(row.channels, [&](int64_t c, auto size) HWY_ATTR {
    AddToQuery<size()>(row.scratch.keys + c, stride, grad_products, count,
                       grad + c * Width());
  });
}

// What a step's keys get.
inline void AddStepOfKeys(const GradientRow& row, Range step) {
  const GradientSizes sizes(row);
  const GradientScratch& scratch = row.scratch;
  const int64_t count = step.size();
  for (int64_t c = 0; c < sizes.sums; c += Width()) {
    const float* const query = scratch.query_channels + c * row.heads;
    float* const added = row.added + step.first * sizes.sums + c;
    vectors::ForBlocks(count, [&](int64_t j, auto size) HWY_ATTR {
      AddOfKeys<size()>(scratch.grad_products + j * sizes.heads, sizes.heads,
                        query, row.heads, count - j, sizes.sums, sizes.sums - c,
                        added + j * sizes.sums);
    });
  }
}

inline void DifferentiateStep(const GradientRow& row, Range step,
                              bool subnormal_query) {
  const GradientSizes sizes(row);
  const GradientScratch& scratch = row.scratch;
  const int64_t count = step.size();
  const bool subnormal = LoadStep(row, step) || subnormal_query;
  for (int64_t first = 0; first < row.heads; first += Width()) {
    MultiplyStep(row, count, scratch.query_panels + first * sizes.channels,
                 subnormal);
    GradProducts(row.listed.grad_scores + step.first, count,
                 scratch.weights + first, scratch.products,
                 scratch.grad_products + first, sizes.heads,
                 scratch.grad_weights + first);
    AddPanelToQuery(row, first, count, scratch.products);
  }
  AddStepOfKeys(row, step);
}

inline void StoreGradients(const GradientRow& row) {
  const GradientSizes sizes(row);
  for (int64_t h = 0; h < row.heads; h += 4) {
    const int64_t lane = h % Width();
    const float* const panel =
        row.scratch.grad_query + (h - lane) * sizes.channels + lane;
    const vectors::FourRows four{row.scratch.staging, sizes.channels};
    vectors::PanelToRows(
        panel, row.channels, [](vectors::Quads&) HWY_ATTR {},
        [&](int64_t c, const vectors::Quads& quads)
            HWY_ATTR { four.Store(quads, c); });
    for (int64_t n = 0; n < std::min<int64_t>(row.heads - h, 4); ++n) {
      vectors::StoreRow(row.grad_query, row.position, h + n,
                        row.scratch.staging + n * sizes.channels, row.channels);
    }
  }
  vectors::StoreRow(row.grad_weights, row.position, 0, row.scratch.grad_weights,
                    row.heads);
}

inline void Differentiate(const GradientRow& row) {
  const bool subnormal = LoadQuery(row);
  for (int64_t j = 0; j < row.listed.count; j += kStepKeys) {
    DifferentiateStep(row, {j, std::min(j + kStepKeys, row.listed.count)},
                      subnormal);
  }
  StoreGradients(row);
}

// Sums are anywhere, and what is added may be in another worker's cache:
// prefetched some keys before, they are there when they are needed.
inline void AddRow(const AddedRow& row) {
  constexpr int64_t kAhead = 8;
  const ListedKeys& listed = row.listed;
  const auto is_owned = [&](int64_t u) {
    return row.parts == 1 ||
           listed.columns[u] / kOwnedKeys % row.parts == row.part;
  };
  for (int64_t u = 0; u < listed.count; ++u) {
    const int64_t next = u + kAhead;
    if (next < listed.count && is_owned(next)) {
      const float* const added = row.added + next * row.stride;
      const float* const sums = row.sums + listed.columns[next] * row.stride;
      for (int64_t c = row.channels.first; c < row.channels.last; c += kLine) {
        __builtin_prefetch(added + c, 0, 3);
        __builtin_prefetch(sums + c, 1, 3);
      }
    }
    if (!is_owned(u)) continue;
    const float* const added = row.added + u * row.stride;
    float* const sums = row.sums + listed.columns[u] * row.stride;
    for (int64_t c = row.channels.first; c < row.channels.last; c += Lanes()) {
      hn::Store(hn::Add(hn::Load(kF, sums + c), hn::Load(kF, added + c)), kF,
                sums + c);
    }
  }
}

inline void StoreSums(const cpu::ElementFormat& format, const float* from,
                      int64_t channels, std::byte* to) {
  vectors::StoreRow(format, from, channels, to);
}

}  // namespace flashacl::indexer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_INDEXER_GRADIENT_INL_H_
