// SPDX-License-Identifier: Apache-2.0
// The rows that one list names, one step of keys at a time.
//
// They are anywhere in memory, so the rows of a step are prefetched while the
// step before is computed: some lines with a little of its arithmetic. Each
// becomes floats, or pairs (tile/pairs-inl.h), once for all heads of a
// position. Keys have their ropes next to them. Values stay rows, too: packing
// them by blocks of channels, as the forward direction does for many query
// rows, costs more than it saves where few panels read them. Values that are
// keys are not read, but where one is of floats and the other of pairs; on x86
// both are pairs, of which products make floats in registers, or, for few
// heads, rows stay where they lie, and products convert some channels at a
// time. For matrix registers the forward direction packs values by channel
// itself (tile/matrix_values-inl.h).

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/kv_rows.h"
#include "cpu/tuning.h"

#if defined(FLASHACL_CPU_TOPK_GATHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_TOPK_GATHER_INL_H_
#undef FLASHACL_CPU_TOPK_GATHER_INL_H_
#else
#define FLASHACL_CPU_TOPK_GATHER_INL_H_
#endif

#include "cpu/tile/keys-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/pairs-inl.h"
#include "cpu/tile/prefetch_queue-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// How values are loaded. Pairs are so only beside keys that are.
enum class ValuesAs : uint8_t {
  kFloats,   // or by channel, and by the caller, for matrix registers
  kPairs,    // of which products make floats
  kDots,     // pairs that the products of pairs take, which subnormals are not
  kInPlace,  // not at all: products convert them (RowsInPlace)
};

// Where the rows of a step go.
struct KvBuffers {
  float* keys;  // [key, key_stride], or pairs, if the tile's are
  int64_t key_stride;
  float* values;  // [key, value_stride], or pairs
  int64_t value_stride;
  float* key_floats;  // [key, key_stride]; null: nobody needs them
  bool value_pairs;
  bool value_dots;      // ValuesAs::kDots
  bool value_in_place;  // ValuesAs::kInPlace
  bool matrices;        // pairs fill whole matrices, with 0 after the last
  bool by_channel;      // the caller packs values
  int terms;            // of keys

  // Values that are keys are where those are. Keys that are pairs are floats in
  // `key_rows` besides, unless that is null.
  KvBuffers(const ScoreTile& tile, float* values_apart, int64_t stride_apart,
            ValuesAs values_as, float* key_rows)
      : keys(tile.scratch.keys),
        key_stride(tile.scratch.key_stride),
        value_dots(values_as == ValuesAs::kDots),
        value_in_place(values_as == ValuesAs::kInPlace),
        matrices(tile.dots == PairDots::kMatrices),
        by_channel(matrices && !value_dots),
        terms(tile.terms) {
    const bool apart = tile.keys.value.base != nullptr;
    const bool pairs = tile.dots != PairDots::kNone;
    values = apart ? values_apart : keys;
    value_stride = apart ? stride_apart : key_stride;
    key_floats = pairs ? key_rows : keys;
    value_pairs = pairs && (values_as == ValuesAs::kPairs || value_dots);
  }
};

// Some listed keys, which are loaded.
struct ListedStep {
  Range listed;
  const KeyAddresses& at;
  // Some key, or value that products of pairs take, is not for these: a number
  // of bf16 is subnormal, or one of fp16, as two terms, is not finite.
  bool subnormal = false;

  int64_t size() const { return listed.size(); }
};

// The listed rows of one kv head.
struct ListedKeys {
  const KvRows& rows;
  const int64_t* columns;
  int64_t count;
  int64_t step_keys;

  // Calls compute(step, prefetch) for every step once its rows are loaded;
  // compute issues the prefetches of the next step's about `times` times.
  template <typename Compute>
  HWY_INLINE void ForSteps(const KvBuffers& buffers, int64_t times,
                           Compute compute) const {
    KeyAddresses at[2];
    PrefetchQueue prefetch(PrefetchesListedIntoSecond(buffers.matrices));
    Locate(0, at[0]);
    for (int n = 0; !at[n].step.empty(); n ^= 1) {
      const ListedStep step{at[n].step, at[n], Load(at[n], buffers)};
      Locate(at[n].step.last, at[n ^ 1]);
      prefetch.Clear();
      PrefetchKeys(rows, at[n ^ 1], 0, 1, prefetch);
      prefetch.Divide(times, buffers.matrices ? kMaxPrefetchLines
                                              : kMaxListedPrefetchLines);
      compute(step, prefetch);
    }
  }

 private:
  // The step that begins with listed key `first`; empty after the last.
  void Locate(int64_t first, KeyAddresses& at) const {
    at.step = {first, std::min(first + step_keys, count)};
    at.absent = false;
    rows.LocateListed({columns + first, static_cast<size_t>(at.step.size())},
                      at.key, at.rope, at.value);
  }

  int64_t channels() const {
    return rows.key.channels +
           (rows.rope.base == nullptr ? 0 : rows.rope.channels);
  }

  // Keys alone, for matrix registers; returns whether one is not for them.
  bool LoadKeysAlone(const KeyAddresses& at, const KvBuffers& to) const {
    LeastOfPairs<Floats> subnormals;
    NonFinite non_finite;
    for (int64_t j = 0; j < at.step.size(); ++j) {
      float* const key = to.keys + j * to.key_stride;
      if (to.terms == 2) {
        LoadKeyTerms(rows, at, j, key, non_finite);
      } else {
        LoadKeyPairs(rows, at, j, key, subnormals);
        ClearAfterPairs(channels(), 1, key);
      }
    }
    return subnormals.AnySubnormal() || non_finite.any();
  }

  // Returns whether some row is not for pairs.
  bool Load(const KeyAddresses& at, const KvBuffers& to) const {
    if (to.by_channel) return LoadKeysAlone(at, to);
    const int64_t size = at.step.size();
    LeastOfPairs<Floats> subnormals, of_values;
    for (int64_t j = 0; j < size; ++j) {
      const int64_t key = j * to.key_stride;
      if (to.key_floats != nullptr) LoadKey(rows, at, j, to.key_floats + key);
      if (to.key_floats != to.keys) {
        LoadKeyPairs(rows, at, j, to.keys + key, subnormals);
        if (to.matrices) ClearAfterPairs(channels(), 1, to.keys + key);
      }
      if (rows.value.base == nullptr || to.value_in_place) continue;
      float* const value = to.values + j * to.value_stride;
      if (to.value_pairs) {
        LoadOnePairs(rows.value, at.value, j, size, rows.value.channels, value,
                     of_values);
        if (to.matrices) ClearAfterPairs(rows.value.channels, 1, value);
      } else {
        LoadOne(rows.value, at.value, j, size, value);
      }
    }
    return subnormals.AnySubnormal() ||
           (to.value_dots && of_values.AnySubnormal());
  }
};

// How many blocks of arithmetic the dot products of one panel with `keys` rows
// of so many channels are, at least.
inline int64_t DotBlocks(PairDots dots, int64_t keys, int64_t channels) {
  const int64_t depth = dots == PairDots::kNone ? channels : channels / 2;
  return std::max<int64_t>(keys / kBig, 1) * CeilDiv(depth, kDepth);
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_GATHER_INL_H_
