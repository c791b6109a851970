// SPDX-License-Identifier: Apache-2.0
// Into pages: which tokens go where is found first, then chunks of tokens are
// copied in any order.
#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "base/range.h"
#include "base/run_memory.h"
#include "base/str.h"
#include "cpu/streams.h"
#include "pages/pages.h"
#include "pages/row_copy.h"

namespace flashacl::pages {
namespace {

using At = std::span<std::byte* const>;

constexpr int64_t kNowhere = -1;

// Where each token goes, or kNowhere.
using Slots = RunVector<int64_t>;

// Numbers that were added; those of open addressing.
class SlotSet {
 public:
  explicit SlotSet(size_t count)
      : shift_(64 - std::bit_width(2 * count)),
        places_(size_t{1} << std::bit_width(2 * count), kNowhere) {}

  // False if it was there.
  bool Add(int64_t slot) {
    // Neighbours are spread, by Fibonacci's multiplier.
    size_t place = static_cast<uint64_t>(slot) * 0x9E3779B97F4A7C15u >> shift_;
    while (places_[place] != kNowhere) {
      if (places_[place] == slot) return false;
      place = (place + 1) & (places_.size() - 1);
    }
    places_[place] = slot;
    return true;
  }

 private:
  int shift_;
  Slots places_;
};

// The same of numbers below a bound: a bit for each.
class SlotBits {
 public:
  explicit SlotBits(int64_t end)
      : words_(static_cast<size_t>(CeilDiv(end, 64))) {}

  bool Add(int64_t slot) {
    uint64_t& word = words_[static_cast<size_t>(slot / 64)];
    const uint64_t bit = uint64_t{1} << (slot % 64);
    if ((word & bit) != 0) return false;
    word |= bit;
    return true;
  }

 private:
  RunVector<uint64_t> words_;
};

template <typename Taken>
void DropTaken(Slots& slots, Taken taken) {
  for (size_t n = slots.size(); n-- > 0;) {
    if (slots[n] != kNowhere && !taken.Add(slots[n])) slots[n] = kNowhere;
  }
}

// Tokens whose slot, which is below `end`, is a later token's, too, go nowhere.
// Bits are looked up without a search; a step of decode in a large cache would
// have to clear too many of them.
void DropOverwritten(Slots& slots, int64_t end) {
  const bool few_bits = end / 64 <= 2 * std::ssize(slots);
  if (few_bits) return DropTaken(slots, SlotBits(end));
  DropTaken(slots, SlotSet(slots.size()));
}

class Scattering final : public Computation {
 public:
  explicit Scattering(Scatter scatter) : scatter_(std::move(scatter)) {}

  std::string_view name() const override { return "pages/scatter"; }

  std::string Describe() const override {
    std::string text = Str("{} rows into {} blocks of {}:", scatter_.tokens,
                           scatter_.blocks, scatter_.block_rows);
    for (const PagedRows& part : scatter_.parts) {
      text += Str(" {} bytes", part.row_bytes());
    }
    return text;
  }

  Status Run(At at, std::byte* /*workspace*/, Queue& queue) const override {
    return queue.OnHost([&](Workers& workers) -> Status {
      const int64_t rows =
          RowsOfChunk(scatter_.parts, scatter_.tokens, workers.count());
      const RunMemoryScope memory;
      const Slots slots = ReadSlots(at);
      workers.ForEach(CeilDiv(scatter_.tokens, rows), [&](int64_t n) {
        const int64_t end = std::min((n + 1) * rows, scatter_.tokens);
        for (const PagedRows& part : scatter_.parts) {
          CopyTokens(part, at, slots, {n * rows, end});
        }
      });
      return {};
    });
  }

 private:
  Slots ReadSlots(At at) const {
    const Integers& from = scatter_.slots;
    const int64_t bytes = SizeOf(from.dtype);
    const std::byte* const first = at[from.argument] + from.offset * bytes;
    const int64_t end = scatter_.blocks * scatter_.block_rows;
    Slots slots(static_cast<size_t>(scatter_.tokens), kNowhere);
    int64_t last = kNowhere;
    bool ascending = true;
    for (int64_t n = 0; n < scatter_.tokens; ++n) {
      const int64_t slot =
          ReadIndex(from.dtype, first + n * from.strides[0] * bytes);
      if (slot < 0 || slot >= end) continue;
      slots[static_cast<size_t>(n)] = slot;
      ascending = ascending && slot > last;
      last = slot;
    }
    // What ascends does not repeat, as in most prompts.
    if (!ascending) DropOverwritten(slots, end);
    return slots;
  }

  void CopyTokens(const PagedRows& part, At at, const Slots& slots,
                  Range tokens) const {
    const CacheRows& cache = part.cache;
    const std::byte* const from = at[part.tokens.argument] + part.tokens.offset;
    std::byte* const to = at[cache.argument] + cache.offset;
    const RowCopy copy(
        part.element_bytes, part.dims, part.tokens.axes, cache.axes,
        cpu::Streams(scatter_.tokens * BytesOfRow(scatter_.parts)));
    RowCollector rows(copy);
    for (int64_t n = tokens.first; n < tokens.last; ++n) {
      const int64_t slot = slots[static_cast<size_t>(n)];
      if (slot == kNowhere) continue;
      rows.Add(from + n * part.tokens.stride,
               to + slot / scatter_.block_rows * cache.block_stride +
                   slot % scatter_.block_rows * cache.stride);
    }
  }

  const Scatter scatter_;
};

}  // namespace

std::shared_ptr<const Computation> MakeScatter(Scatter scatter) {
  return std::make_shared<const Scattering>(std::move(scatter));
}

}  // namespace flashacl::pages
