// SPDX-License-Identifier: Apache-2.0
// How rows begin, and what becomes of them: results in the caller's layout, or
// a split to be combined.
//
// Outputs are [channel, lane], with query rows in lanes. As many rows as a
// vector has are multiplied by 1 / sum and transposed where they are, and
// rounded on their way to the caller's rows. Four rows at a time do so in
// registers, channels inner, where there are not as many, channels do not fill
// panels, or sums are still needed; those that go past the caches take a buffer
// on the way (store_rows-inl.h). Rows of a split are stored as they are, with
// max and sum; CombineSplits goes row by row and adds up its splits in their
// order, once all of them are there, so the answer does not depend on who
// computed which.
//
// Sums of probs times values may leave the range of fp32 where the output does
// not. Such rows are stored like all others, and once more after their keys
// have met probs that are normalized beforehand (docs/notes/0019).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/tile/attention_params.h"

#if defined(FLASHACL_CPU_TILE_RESULT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TILE_RESULT_INL_H_
#undef FLASHACL_CPU_TILE_RESULT_INL_H_
#else
#define FLASHACL_CPU_TILE_RESULT_INL_H_
#endif

#include "cpu/tile/keys-inl.h"
#include "cpu/tile/load-inl.h"
#include "cpu/tile/mask-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/store_rows-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// The rows of the panel that begins with row `first`, before any key. A sink is
// a key whose value is zero: where the row starts.
inline void StartRows(const ForwardTile& tile, int64_t first) {
  for (int64_t r = first; r < first + Width(); ++r) {
    const QueryRow& query_row =
        tile.scratch.query_rows[std::min(r, tile.rows - 1)];
    const bool none = query_row.sink == kMinusInfinity;
    tile.forward.max[r] = query_row.sink;
    // Of a sink that is no number the row becomes NaN, as of any such score.
    tile.forward.sum[r] = none                            ? 0.0f
                          : std::isfinite(query_row.sink) ? 1.0f
                                                          : NAN;
  }
}

// Whether a row sees any key of its sequence.
inline bool SeesAny(const ForwardTile& tile, const QueryRow& row) {
  for (int64_t j = 0; j < tile.columns; ++j) {
    if (VisibleBits(tile, row, {j, j + 1}, 1, true) != 0 &&
        tile.keys.Exists(j)) {
      return true;
    }
  }
  return false;
}

// The log-sum-exp of a row. Where the sum is what a sink alone leaves, 1 or
// NaN, the row may have seen no key, or keys that weigh nothing beside the
// sink.
HWY_NOINLINE inline void StoreLse(const ForwardTile& tile, const QueryRow& row,
                                  float max, float sum) {
  const bool sink_alone = row.sink != kMinusInfinity && !(sum > 1.0f);
  const bool unseen =
      tile.columns == 0 || sum == 0 || (sink_alone && !SeesAny(tile, row));
  const float lse = unseen ? -kMinusInfinity : max + std::log(sum);
  tile.forward_params->lse_copies.Store(lse, row.lse);
}

// Where a finished row's numbers go.
inline void StoreRowResult(const ForwardTile& tile, const QueryRow& query_row,
                           float max, float sum) {
  const ForwardParams& params = *tile.forward_params;
  if (query_row.lse != nullptr) StoreLse(tile, query_row, max, sum);
  if (sum == 0) {
    // The row has seen nothing, or only scores of -inf.
    max = params.unseen_max;
    sum = params.unseen_sum;
  }
  if (tile.columns == 0) max = sum = 0;
  params.max_copies.Store(max, query_row.max);
  params.sum_copies.Store(sum, query_row.sum);
}

// row = row * scale + offset, as its head has them.
inline void Encode(const OutQuantParams& quant, int64_t head, int64_t channels,
                   float* HWY_RESTRICT row) {
  const auto at = [&](const OutQuantParams::Factor& factor, int64_t d) {
    const ElementFormat& format = factor.format;
    return FloatOf(format.dtype, factor.base + head * factor.head_bytes +
                                     d * format.step * format.element_bytes);
  };
  for (int64_t d = 0; d < channels; ++d) {
    if (quant.scale.base != nullptr) row[d] *= at(quant.scale, d);
    if (quant.offset.base != nullptr) row[d] += at(quant.offset, d);
  }
}

// What out is multiplied by at the end: 1 / (sum * keep_probability), and 0
// where nothing was seen.
HWY_INLINE float InvSumOf(const ForwardTile& tile, float sum) {
  return sum == 0 ? 0.0f : 1.0f / (sum * tile.params->keep_probability);
}

// The same of a vector of rows. A load of what several stores wrote would wait
// for them.
template <class D>
HWY_INLINE VectorOf<D> InvSumsOf(D d, const ForwardTile& tile,
                                 const VectorOf<D>& sums) {
  const VectorOf<D> kept =
      hn::Mul(sums, hn::Set(d, tile.params->keep_probability));
  return hn::IfThenZeroElse(hn::Eq(sums, hn::Zero(d)),
                            hn::Div(hn::Set(d, 1.0f), kept));
}

// Outputs of a vector of rows, times that. A row that saw only scores of -inf
// is 0, whatever their values were.
template <class D>
HWY_INLINE VectorOf<D> TimesInvSums(D d, const VectorOf<D>& x,
                                    const VectorOf<D>& by) {
  return hn::IfThenZeroElse(hn::Eq(by, hn::Zero(d)), hn::Mul(x, by));
}

// A finished row, as the caller has it.
inline void StoreOut(const ForwardTile& tile, const QueryRow& query_row,
                     float* HWY_RESTRICT row) {
  if (tile.quant != nullptr)
    Encode(*tile.quant, query_row.head, tile.params->v_dim, row);
  StoreRow(tile.forward_params->out, row, tile.params->v_dim, query_row.out);
}

// The sums of a row become its results. A row that saw only scores of -inf is
// 0, whatever their values were.
inline void FinishRow(const ForwardTile& tile, const QueryRow& query_row,
                      float max, float sum, float* HWY_RESTRICT row) {
  const int64_t v_dim = tile.params->v_dim;
  if (sum == 0) std::fill_n(row, v_dim, 0.0f);
  const float inv_sum = InvSumOf(tile, sum);
  for (int64_t d = 0; d < v_dim; ++d) row[d] *= inv_sum;
  StoreOut(tile, query_row, row);
  StoreRowResult(tile, query_row, max, sum);
}

// Row `r` of a split, as CombineSplits reads it.
inline void StoreSplit(const ForwardTile& tile, int64_t r,
                       const float* HWY_RESTRICT row, float max, float sum) {
  const int64_t v_dim = tile.params->v_dim;
  float* const to = tile.split_out + r * (v_dim + 2);
  std::copy_n(row, v_dim, to);
  to[v_dim] = max;
  to[v_dim + 1] = sum;
}

// What probs are multiplied by for the sums of a row to be its output, or its
// split divided by the sum.
HWY_INLINE float NormalizerOf(const ForwardTile& tile, float sum) {
  if (tile.split_out == nullptr) return InvSumOf(tile, sum);
  return sum == 0 ? 0.0f : 1.0f / sum;
}

// Row `r` again, of probs that were normalized for this sum. Its max and sum
// are stored.
inline void StoreNormalized(const ForwardTile& tile, int64_t r, float max,
                            float sum, float* HWY_RESTRICT row) {
  if (tile.split_out != nullptr) {
    StoreSplit(tile, r, row, max, -sum);
  } else {
    StoreOut(tile, tile.scratch.query_rows[r], row);
  }
}

// Whether sums of a row may have overflowed: some is not finite, and no score
// is to blame.
inline bool MayOverflow(const float* HWY_RESTRICT row, int64_t v_dim,
                        float sum) {
  return std::isfinite(sum) && sum > 0 && !AllFinite(row, v_dim);
}

// The rows of a panel of which this is true, a bit for each.
inline uint32_t RowsThatMayOverflow(const ForwardTile& tile, int64_t first) {
  const int64_t v_dim = tile.params->v_dim;
  const float* const out = tile.forward.out + first * BlockEnd(v_dim);
  Patterns low = hn::Zero(kW), high = low;  // the greatest, as in keys-inl.h
  FLASHACL_UNROLL_8
  for (int64_t d = 0; d < v_dim; ++d) {
    const PanelPair x = PanelPair::Load(out + d * Width());
    low = hn::Max(low, hn::BitCast(kW, hn::Abs(x.low)));
    high = hn::Max(high, hn::BitCast(kW, hn::Abs(x.high)));
  }
  if (IsFinite(hn::Max(low, high))) return 0;
  HWY_ALIGN float lanes[Width()];
  PanelPair{hn::BitCast(kF, low), hn::BitCast(kF, high)}.Store(lanes);
  uint32_t rows = 0;
  for (int64_t r = 0; r < std::min<int64_t>(Width(), tile.rows - first); ++r) {
    const bool may = MayOverflow(lanes + r, 1, tile.forward.sum[first + r]);
    rows |= uint32_t{may} << r;
  }
  return rows;
}

// Whether rows go from registers to their place.
inline bool StoresDirectly(const ForwardTile& tile) {
  const ElementFormat& out = tile.forward_params->out;
  return tile.split_out == nullptr && tile.quant == nullptr && out.step == 1 &&
         (out.dtype == DType::kF32 || out.dtype == DType::kF16 ||
          out.dtype == DType::kBf16);
}

// Whether they go past the caches instead: rows that are lines. Four rows do so
// by way of memory, as registers have quarters of their lines.
inline bool RowsStream(const ForwardTile& tile) {
  const int64_t bytes =
      tile.params->v_dim * tile.forward_params->out.element_bytes;
  return tile.streams && StoresDirectly(tile) &&
         AreLines(tile.scratch.query_rows->out, bytes);
}

// What the outputs of four rows are multiplied by, lane by lane.
struct QuadFactor {
  QuadVector by;

  HWY_INLINE void operator()(Quads& quads) const {
    HWY_UNROLL_ALL
    for (int n = 0; n < 4; ++n) {
      quads.at[n] = TimesInvSums(kQ, quads.at[n], by);
    }
  }
};

// Channels [0, v_dim) of `count` <= 4 rows from their panel to their place.
template <DType kType>
HWY_INLINE void StoreRows(const float* HWY_RESTRICT panel, int64_t v_dim,
                          const QuadFactor& factor, const QueryRow* query_rows,
                          int64_t count) {
  // Rows that do not exist repeat the last one that does.
  std::byte* to[4];
  for (int64_t r = 0; r < 4; ++r)
    to[r] = query_rows[std::min(r, count - 1)].out;
  const auto store = [&](int64_t k, const Quads& quads) HWY_ATTR {
    HWY_UNROLL_ALL
    for (int r = 3; r >= 0; --r) {
      StoreFloats<kType>(kQ, quads.at[r], to[r], k);
    }
  };
  const int64_t whole = v_dim / 4 * 4;
  PanelToRows(panel, whole, factor, store);
  if (whole == v_dim) return;
  PanelToRows(panel + whole * Width(), 1, factor,
              [&](int64_t, const Quads& quads) HWY_ATTR {
                constexpr int64_t kBytes = kType == DType::kF32 ? 4 : 2;
                for (int64_t r = 0; r < count; ++r) {
                  HWY_ALIGN float rest[4];
                  hn::Store(quads.at[r], kQ, rest);
                  for (int64_t d = whole; d < v_dim; ++d) {
                    StoreElement(kType, rest[d - whole], to[r] + d * kBytes);
                  }
                }
              });
}

// The lines that the results of a panel go to will be needed.
inline void PrefetchResults(const ForwardTile& tile, int64_t first,
                            PrefetchQueue& prefetch) {
  if (RowsStream(tile)) return;
  const int64_t bytes =
      tile.params->v_dim * tile.forward_params->out.element_bytes;
  const QueryRow* const rows = tile.scratch.query_rows + first;
  prefetch.Add(std::min<int64_t>(Width(), tile.rows - first), bytes,
               [&](int64_t r) { return rows[r].out; });
}

// Rows first to first + 3 from their panel to where they belong.
inline void StoreFour(const ForwardTile& tile, int64_t first) {
  const int64_t v_dim = tile.params->v_dim;
  const int64_t panel = first / Width() * Width();
  const float* const from =
      tile.forward.out + panel * BlockEnd(v_dim) + (first - panel);
  const int64_t count = std::min<int64_t>(4, tile.rows - first);
  const QueryRow* const query_rows = tile.scratch.query_rows + first;
  QuadFactor factor{hn::Set(kQ, 1.0f)};
  if (tile.split_out == nullptr) {
    factor.by = InvSumsOf(kQ, tile, hn::Load(kQ, tile.forward.sum + first));
  }
  const bool streams = RowsStream(tile);
  if (StoresDirectly(tile) && !streams) {
    return WithVectorType(tile.forward_params->out.dtype, [&](auto type) {
      if constexpr (type() != DType::kI8) {
        StoreRows<type()>(from, v_dim, factor, query_rows, count);
      }
    });
  }
  const FourRows staging{tile.scratch.staging, tile.scratch.staging_stride};
  PanelToRows(from, v_dim, factor, [&](int64_t k, const Quads& quads) HWY_ATTR {
    staging.Store(quads, k);
  });
  if (streams) {
    return StoreScaledRows(tile.forward_params->out,
                           {{tile.scratch.staging, tile.scratch.staging_stride},
                            count,
                            {0, v_dim},
                            1.0f,
                            streams},
                           [&](int64_t n)
                               HWY_ATTR { return query_rows[n].out; });
  }
  for (int64_t r = 0; r < count; ++r) {
    float* const row = tile.scratch.staging + r * tile.scratch.staging_stride;
    if (tile.split_out == nullptr) {
      StoreOut(tile, query_rows[r], row);
    } else {
      StoreSplit(tile, first + r, row, tile.forward.max[first + r],
                 tile.forward.sum[first + r]);
    }
  }
}

// As many rows as a vector has, from row `first` on. Their sums become rows
// where they are, as many channels at a time, and are used up.
template <DType kType, bool kStreams>
HWY_INLINE void StoreWholeRows(const ForwardTile& tile, int64_t first,
                               float* sums) {
  const int64_t v_dim = tile.params->v_dim;
  const Vector by = InvSumsOf(kF, tile, hn::Load(kF, tile.forward.sum + first));
  PanelToWholeRows(
      sums, v_dim,
      [&](const Vector& x) HWY_ATTR { return TimesInvSums(kF, x, by); },
      [&](int64_t r, int64_t k, const Vector& x)
          HWY_ATTR { hn::Store(x, kF, sums + (k + r) * Width()); });
  for (int64_t r = 0; r < Lanes(); ++r) {
    std::byte* const to = tile.scratch.query_rows[first + r].out;
    const auto at = [&](int64_t k) HWY_ATTR {
      return hn::Load(kF, sums + (k + r) * Width());
    };
    for (int64_t k = 0; k < v_dim; k += Width()) {
      StoreInOrder<kType, kStreams>({at(k), at(k + Lanes())}, to, k);
    }
  }
}

// Stores rows `first` to first + Lanes() - 1 and returns true, their sums used
// up, if they all exist, go to their place as they are, and consist of panels
// of channels; of lines, too, if they go past the caches.
inline bool StoreWhole(const ForwardTile& tile, int64_t first) {
  const int64_t v_dim = tile.params->v_dim;
  if (first % Lanes() != 0 || first + Lanes() > tile.rows ||
      v_dim % Width() != 0 || !StoresDirectly(tile)) {
    return false;
  }
  const ElementFormat& out = tile.forward_params->out;
  bool streams = RowsStream(tile);
  if (streams && Width() * out.element_bytes % kLineBytes != 0) return false;
  for (int64_t r = first; r < first + Lanes(); ++r) {
    streams &= AreLines(tile.scratch.query_rows[r].out, 0);
  }
  const int64_t panel = first / Width() * Width();
  float* const sums =
      tile.forward.out + panel * BlockEnd(v_dim) + (first - panel);
  WithVectorType(out.dtype, [&](auto type) HWY_ATTR {
    if constexpr (type() != DType::kI8) {
      streams ? StoreWholeRows<type(), true>(tile, first, sums)
              : StoreWholeRows<type(), false>(tile, first, sums);
    }
  });
  return true;
}

// The rows of the panel that begins with row `first`; their sums are used up
// unless they are to be kept.
inline void StorePanel(const ForwardTile& tile, int64_t first,
                       bool keep = false) {
  const int64_t last = std::min<int64_t>(first + Width(), tile.rows);
  for (int64_t row = first; row < last;) {
    if (!keep && StoreWhole(tile, row)) {
      row += Lanes();
    } else {
      StoreFour(tile, row);
      row += 4;
    }
  }
  if (tile.split_out != nullptr) return;
  for (int64_t row = first; row < last; ++row) {
    StoreRowResult(tile, tile.scratch.query_rows[row], tile.forward.max[row],
                   tile.forward.sum[row]);
  }
}

// The splits of one row.
struct RowSplits {
  const float* first;
  int64_t count;
  int64_t floats;  // from split to split
  int64_t v_dim;

  float Max() const {
    float max = kMinusInfinity;
    for (int64_t p = 0; p < count; ++p) {
      const float split_max = first[p * floats + v_dim];
      max = split_max > max ? split_max : max;
    }
    return max;
  }

  // Adds them up in order, times `factor`; returns the sum without it.
  HWY_NOINLINE float AddTo(float max, float factor,
                           float* HWY_RESTRICT out) const {
    const float from = max == kMinusInfinity ? 0.0f : max;
    float sum = 0;
    std::fill_n(out, v_dim, 0.0f);
    for (int64_t p = 0; p < count; ++p) {
      const float* const split = first + p * floats;
      const Vector rescale = Exp(hn::Set(kF, split[v_dim] - from));
      const float split_sum = std::fabs(split[v_dim + 1]);
      const bool normalized = split[v_dim + 1] < 0;
      // Said so that no compiler may choose how often it rounds.
      sum = hn::GetLane(
          hn::MulAdd(rescale, hn::Set(kF, split_sum), hn::Set(kF, sum)));
      const float of_row =
          hn::GetLane(rescale) * factor * (normalized ? split_sum : 1.0f);
      for (int64_t d = 0; d < v_dim; ++d) out[d] += of_row * split[d];
    }
    return sum;
  }
};

// Combines the splits of every row in order and stores the results:
//   max = greatest max, sum = sum of sums * exp(split_max - max), out likewise.
inline void CombineSplits(const ForwardTile& tile, int64_t num_splits) {
  const int64_t v_dim = tile.params->v_dim;
  float* const out = tile.scratch.staging;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const QueryRow& query_row = tile.scratch.query_rows[row];
    const RowSplits splits{tile.split_out + row * (v_dim + 2), num_splits,
                           tile.rows * (v_dim + 2), v_dim};
    const float max = splits.Max();
    const float sum = splits.AddTo(max, 1.0f, out);
    if (MayOverflow(out, v_dim, sum)) {
      splits.AddTo(max, InvSumOf(tile, sum), out);
      StoreOut(tile, query_row, out);
      StoreRowResult(tile, query_row, max, sum);
    } else {
      FinishRow(tile, query_row, max, sum, out);
    }
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TILE_RESULT_INL_H_
