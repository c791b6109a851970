// SPDX-License-Identifier: Apache-2.0
// TopK keys as floats, one step at a time.

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
#include "cpu/tile/load-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// Where a step's rows go: keys with their ropes behind them, and values, which
// are nowhere else if they are the keys.
struct KvBuffers {
  float* keys;  // [key, key_stride]
  int64_t key_stride;
  float* values;  // [key, value_stride]
  int64_t value_stride;
};

// The keys of one list, in steps of `step` keys.
struct ListedKeys {
  const KvRows* rows;
  const int64_t* columns;
  int64_t count;
  int64_t step;

  // The step that begins with listed key `first`; empty behind the last.
  void Locate(int64_t first, KeyAddresses& at) const {
    at.step = {first, std::min(first + step, count)};
    at.absent = false;
    rows->LocateListed({columns + first, static_cast<size_t>(at.step.size())},
                       at.key, at.rope, at.value);
  }

  // The step that is located in `at` will be needed, after about `blocks`
  // blocks of arithmetic.
  void Expect(const KeyAddresses& at, int64_t blocks,
              PrefetchQueue& prefetch) const {
    prefetch.Clear();
    PrefetchKeys(*rows, at, 0, 1, prefetch);
    prefetch.Divide(blocks);
  }

  void Load(const KeyAddresses& at, const KvBuffers& to) const {
    const int64_t size = at.step.size();
    for (int64_t j = 0; j < size; ++j) {
      float* const key = to.keys + j * to.key_stride;
      LoadOne(rows->key, at.key, j, size, key);
      if (rows->rope.base != nullptr) {
        LoadOne(rows->rope, at.rope, j, size, key + rows->key.channels);
      }
      if (rows->value.base != nullptr) {
        LoadOne(rows->value, at.value, j, size,
                to.values + j * to.value_stride);
      }
    }
  }
};

// How many blocks the products of one panel have at least, if they go over
// `channels` of `keys`, and have sums of `sums` channels over keys.
inline int64_t BlocksOf(int64_t keys, int64_t channels, int64_t sums) {
  return std::max<int64_t>(keys / kBig, 1) * CeilDiv(channels, kDepth) +
         sums / kBig;
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FLASHACL_CPU_TOPK_GATHER_INL_H_
