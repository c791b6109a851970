// SPDX-License-Identifier: Apache-2.0
// What happens to the scores of a micro-tile, [key, row], between its two
// products: biases, hidden keys, softmax.
//
// A vector has the scores of four rows for one key or several, or of a single
// row for as many keys as lanes. Each pass goes over the vectors of a step, and
// the bits of masks and dropout are spread over lanes alike. Max and sum are
// kept by lane through a step and combined across lanes once, at its end, to
// those of four rows.

#include <algorithm>
#include <cstdint>

#include "cpu/tile/attention_params.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_DECODE_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_SCORE_INL_H_
#undef FLASHACL_CPU_DECODE_SCORE_INL_H_
#else
#define FLASHACL_CPU_DECODE_SCORE_INL_H_
#endif

#include "cpu/decode/gemv_args-inl.h"
#include "cpu/tile/mask-inl.h"
#include "cpu/tile/score-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/transpose-inl.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Up to four packed rows of a tile, and what is theirs in its scratch memory.
struct MicroTile {
  const QueryRow* query_rows;
  int rows;
  int64_t width;        // scores of one key: 4, or 1 of a single row
  const float* query;   // [vector of channels, row, lane]
  const float* offset;  // [row]: what key offsets add to dot products
  float* out;           // [vector of channels, row, lane]
  float* max;           // [row]
  float* sum;           // [row]
  float* scores;        // [key, row] of one step
  BitWords visible;     // [row, 32 keys]
  BitWords kept;        // the same
};

// Scores or probs of `count` keys whose bit is not set become `other`.
inline void ReplaceUnset(const MicroTile& micro_tile, const BitWords& bits,
                         int64_t count, float other) {
  const hn::RebindToUnsigned<Floats> u;
  const int64_t width = micro_tile.width;
  const int64_t keys = Lanes() / width;  // in one vector
  HWY_ALIGN uint32_t lanes[Lanes()];
  // Shifts that bring the bits of a vector's keys up to the sign.
  for (int64_t n = 0; n < Lanes(); ++n) {
    lanes[n] = static_cast<uint32_t>(31 - n / width);
  }
  const auto shifts = hn::Load(u, lanes);
  const Vector replaced = hn::Set(kF, other);
  for (int64_t block = 0; block < count; block += 32) {
    for (int64_t n = 0; n < Lanes(); ++n) {
      lanes[n] = bits.At(n % width, block / 32);
    }
    const auto words = hn::Load(u, lanes);
    const int64_t left = std::min<int64_t>(32, count - block);
    for (int64_t j = 0; j < left; j += keys) {
      float* const at = micro_tile.scores + (block + j) * width;
      const Vector signs = hn::BitCast(
          kF, hn::Shl(words,
                      hn::Sub(shifts, hn::Set(u, static_cast<uint32_t>(j)))));
      const Vector scores = hn::LoadU(kF, at);
      hn::StoreU(hn::IfNegativeThenElse(signs, scores, replaced), kF, at);
    }
  }
}

// Scales and offsets by row of a step's keys or values, 0 after the last.
struct StepFactors {
  HWY_ALIGN float scale[kDecodeScores];
  HWY_ALIGN float offset[kDecodeScores];
  bool offsets;  // there are any
  bool finite;   // all of them

  void Load(const KvRows& rows, const RowSource& source, Range step) {
    offsets = source.row_offset.base != nullptr;
    Load(rows, source.row_scale, step, scale);
    Load(rows, source.row_offset, step, offset);
    finite = IsFinite(scale) && (!offsets || IsFinite(offset));
  }

  // Whether all scales are.
  bool AreWithin(float least, float most) const {
    bool within = true;
    for (int64_t j = 0; j < kDecodeScores; j += Lanes()) {
      const Vector x = hn::Load(kF, scale + j);
      within = within && hn::AllTrue(kF, hn::And(hn::Le(hn::Set(kF, least), x),
                                                 hn::Le(x, hn::Set(kF, most))));
    }
    return within;
  }

 private:
  static void Load(const KvRows& rows, const RowFactor& factor, Range step,
                   float* to) {
    rows.LoadRowFactors(factor, step, to);
    std::fill(to + step.size(), to + kDecodeScores, 0.0f);
  }

  static bool IsFinite(const float* HWY_RESTRICT factors) {
    Vector sum = hn::Zero(kF);
    for (int64_t j = 0; j < kDecodeScores; j += Lanes()) {
      sum = hn::MulAdd(hn::Load(kF, factors + j), hn::Zero(kF), sum);
    }
    return hn::AllTrue(kF, hn::Eq(sum, hn::Zero(kF)));
  }
};

// Spreads a step's factors over the lanes of scores: of keys in order, each as
// often as a key has scores, four times or once.
class FactorLanes {
 public:
  explicit HWY_INLINE FactorLanes(int64_t width)
      : key_(hn::IndicesFromVec(
            kF, width == 1 ? hn::Iota(kW, 0)
                           : hn::ShiftRight<2>(hn::Iota(kW, 0)))) {}

  // Those of the vector of scores that begins with key `j`.
  HWY_INLINE Vector At(const float* HWY_RESTRICT factors, int64_t j) const {
    return hn::TableLookupLanes(hn::LoadU(kF, factors + j), key_);
  }

 private:
  Stored<decltype(hn::IndicesFromVec(kF, hn::Vec<Words>()))> key_;
};

// How many keys have scores, and what these are multiplied by already.
struct ScaledScores {
  int64_t count;
  float factor;
};

// Keys are scale * (x + offset) by row, and scores are of x: these become
// scale * (score + offset * factor * sum), where `sums` are of the queries.
inline void ScaleMicroTileScores(const MicroTile& micro_tile,
                                 const float* HWY_RESTRICT sums,
                                 const StepFactors& factors,
                                 const ScaledScores& of) {
  const int64_t width = micro_tile.width;
  const FactorLanes lanes(width);
  const Vector sum =
      hn::Mul(width == 1 ? hn::Set(kF, sums[0]) : hn::LoadDup128(kF, sums),
              hn::Set(kF, of.factor));
  float* HWY_RESTRICT at = micro_tile.scores;
  for (int64_t j = 0; j < of.count; j += Lanes() / width, at += Lanes()) {
    Vector score = hn::LoadU(kF, at);
    if (factors.offsets) {
      score = hn::MulAdd(lanes.At(factors.offset, j), sum, score);
    }
    hn::StoreU(hn::Mul(score, lanes.At(factors.scale, j)), kF, at);
  }
}

// Values are scale * (x + offset) by row: probs become prob * scale, which
// multiply x, and `sums`, four of them, grow by what the offsets add to every
// channel. A prob of 0 stays 0.
inline void ScaleMicroTileProbs(const MicroTile& micro_tile,
                                const StepFactors& factors, int64_t count,
                                float* HWY_RESTRICT sums) {
  const int64_t width = micro_tile.width;
  const FactorLanes lanes(width);
  Vector sum = hn::Zero(kF);
  float* HWY_RESTRICT at = micro_tile.scores;
  for (int64_t j = 0; j < count; j += Lanes() / width, at += Lanes()) {
    const Vector prob = hn::Mul(hn::LoadU(kF, at), lanes.At(factors.scale, j));
    if (factors.offsets) {
      sum = hn::MulAdd(prob, lanes.At(factors.offset, j), sum);
    }
    hn::StoreU(prob, kF, at);
  }
  if (!factors.offsets) return;
  QuadVector added = SumOfBlocks(sum);
  if (width == 1) added = hn::SumOfLanes(kQ, added);
  hn::StoreU(hn::Add(hn::LoadU(kQ, sums), added), kQ, sums);
}

// score = (score + bias) * factor for the keys `cols`.
inline void AddMicroTileBias(const ScoreTile& tile, const MicroTile& micro_tile,
                             Range cols) {
  const int64_t stride = tile.scratch.staging_stride;
  float* const staging = tile.scratch.staging;
  const float factor = FactorAfterBias(*tile.params);
  for (int64_t r = 0; r < micro_tile.width; ++r) {
    // Rows that do not exist repeat the last: what they get is never used.
    LoadBias(*tile.params,
             micro_tile.query_rows[std::min<int64_t>(r, micro_tile.rows - 1)],
             cols, staging + r * stride);
  }
  if (micro_tile.width == 4) {
    AddRowsToPanel({staging, stride}, cols.size(), factor, micro_tile.scores,
                   4);
    return;
  }
  for (int64_t j = 0; j < cols.size(); j += Lanes()) {
    const Vector sum = hn::Add(hn::Load(kF, micro_tile.scores + j),
                               hn::LoadU(kF, staging + j));
    hn::Store(hn::Mul(sum, hn::Set(kF, factor)), kF, micro_tile.scores + j);
  }
}

inline void AddMicroTileAlibi(const ScoreTile& tile,
                              const MicroTile& micro_tile, Range cols) {
  const int64_t width = micro_tile.width;
  Alibi alibi;
  alibi.root = tile.params->alibi_root;
  for (int64_t n = 0; n < Lanes(); ++n) {
    const int64_t r = std::min<int64_t>(n % width, micro_tile.rows - 1);
    alibi.Set(tile, n, micro_tile.query_rows[r], cols.first + n / width);
  }
  alibi.AddTo(micro_tile.scores, CeilDiv(cols.size() * width, Lanes()), Lanes(),
              Lanes() / width);
}

// Softmax of a micro-tile over the keys seen so far, whose scores are read as
// those of a panel: two vectors at a time, however many keys they have.
struct MicroTileSoftmax {
  const MicroTile& micro_tile;

  // Turns the scores of `count` keys, followed by -inf up to whole pairs of
  // vectors, into probs. Returns whether what was summed before must be
  // rescaled, by `rescale`, [row] of four.
  bool OnlineSoftmax(int64_t count, float* HWY_RESTRICT rescale) const {
    const bool single = micro_tile.width == 1;
    const int64_t pairs = CeilDiv(count * micro_tile.width, Width());
    const PanelPair block_maxima = BlockMax(micro_tile.scores, pairs);
    QuadVector block_max = CombineBlocks(
        kF, hn::Max(block_maxima.low, block_maxima.high),
        [](const auto& a, const auto& b) HWY_ATTR { return hn::Max(a, b); });
    if (single) block_max = hn::MaxOfLanes(kQ, block_max);
    const QuadVector before = hn::LoadU(kQ, micro_tile.max);
    const QuadVector now = hn::Max(block_max, before);
    const QuadVector from =
        hn::IfThenZeroElse(hn::Eq(now, hn::Set(kQ, kMinusInfinity)), now);
    HWY_ALIGN float lanes[Width()];
    hn::Store(from, kQ, lanes);
    const Vector each =
        single ? hn::Set(kF, lanes[0]) : hn::LoadDup128(kF, lanes);
    const PanelPair added = ExpAndSum(micro_tile.scores, pairs, {each, each});
    QuadVector sum = SumOfBlocks(hn::Add(added.low, added.high));
    if (single) sum = hn::SumOfLanes(kQ, sum);
    const QuadVector total = hn::LoadU(kQ, micro_tile.sum);
    const bool rescales = !hn::AllTrue(kQ, hn::Eq(before, from));
    hn::StoreU(now, kQ, micro_tile.max);
    if (!rescales) {
      hn::StoreU(hn::Add(total, sum), kQ, micro_tile.sum);
      return false;
    }
    hn::Store(hn::Sub(before, from), kQ, lanes);
    hn::Store(Exp(hn::LoadDup128(kF, lanes)), kF, lanes);
    const QuadVector factor = hn::Load(kQ, lanes);
    hn::StoreU(factor, kQ, rescale);
    hn::StoreU(hn::MulAdd(total, factor, sum), kQ, micro_tile.sum);
    return true;
  }
};

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_DECODE_SCORE_INL_H_
