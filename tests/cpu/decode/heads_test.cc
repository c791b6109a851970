// SPDX-License-Identifier: Apache-2.0
// Calls of the products for several heads: each micro-tile gets the bits that a
// call of its own gives it, however many keys are read at a time, and nothing
// else is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "cpu/targets.h"
#include "hwy/highway.h"
// After highway.h.
#include "cpu/decode/decode-inl.h"
#include "cpu/decode/gemv_args-inl.h"

namespace flashacl::cpu {
namespace {

using HWY_NAMESPACE::GemvKernelsOf;
using HWY_NAMESPACE::KeysOfAllHeads;
using HWY_NAMESPACE::Lanes;
using HWY_NAMESPACE::LinePrefetcher;
using HWY_NAMESPACE::PvArgs;
using HWY_NAMESPACE::PvTile;
using HWY_NAMESPACE::QkArgs;
using HWY_NAMESPACE::QkTile;

constexpr float kUntouched = 12345;

// Vectors of floats that are aligned as the products want theirs.
class Floats {
 public:
  explicit Floats(int64_t count)
      : count_(static_cast<size_t>(count)), room_(count_ + 32, kUntouched) {}

  float* data() {
    const auto at = reinterpret_cast<uintptr_t>(room_.data());
    return room_.data() + (64 - at % 64) % 64 / sizeof(float);
  }
  void Fill(Random& random) {
    for (size_t n = 0; n < count_; ++n) {
      data()[n] = random.Bell();
    }
  }
  // And what is after them.
  std::vector<float> all() { return {data(), data() + count_ + 16}; }

 private:
  size_t count_;
  std::vector<float> room_;
};

// A step of several heads side by side, [key, head, channel] of floats or of
// bytes, which are any, and room for what is made of it.
struct Step {
  DType type;
  int64_t heads, of_head, last_rows, count, vectors;
  Floats rows, operands, results;
  std::vector<const std::byte*> at;
  float offset[4] = {0.5f, 0.25f, 0, 1};

  // Operands are queries or probs.
  Step(Random& random, bool scores, DType dtype)
      : type(dtype),
        heads(random.Within(1, 5)),
        of_head(random.Within(1, 4)),
        last_rows(random.Within(1, 4)),
        count(random.Within(1, 48)),
        vectors(random.Within(1, 6)),
        rows(count * heads * channels()),
        operands(heads * of_head * OfOperand(scores)),
        results(heads * of_head * OfOperand(!scores)) {
    rows.Fill(random);
    operands.Fill(random);
    auto* const bytes = reinterpret_cast<std::byte*>(rows.data());
    for (int64_t j = 0; j < count; ++j) at.push_back(bytes + j * shift(heads));
  }

  int64_t element_bytes() const { return type == DType::kF32 ? 4 : 1; }

  int64_t channels() const { return vectors * Lanes(); }
  int rows_of(int64_t n) const {
    return static_cast<int>(n + 1 < of_head ? 4 : last_rows);
  }
  // Floats of a micro-tile: [vector, row, lane], or [key, row] with room for
  // those that pass the end.
  int64_t OfOperand(bool by_channel) const {
    return by_channel ? 4 * channels() : 4 * 64;
  }
  int64_t shift(int64_t head) const {
    return head * channels() * element_bytes();
  }
  float* operand(int64_t n, bool scores) {
    return operands.data() + n * OfOperand(scores);
  }
  float* result(int64_t n, bool scores, Floats& of) {
    return of.data() + n * OfOperand(!scores);
  }
};

void Score(Step& step, int64_t keys, bool together, Floats& results) {
  std::vector<QkTile> tiles;
  for (int64_t n = 0; n < step.heads * step.of_head; ++n) {
    tiles.push_back({step.rows_of(n % step.of_head),
                     step.shift(n / step.of_head), 0, step.operand(n, true),
                     step.offset, step.result(n, true, results)});
  }
  LinePrefetcher prefetch(step.at.data(), step.at.data() + step.count, 64);
  QkArgs work{.all = {tiles.data(), step.heads, step.of_head, keys},
              .keys = step.at.data(),
              .ropes = nullptr,
              .prefetch = &prefetch,
              .count = step.count,
              .piece_step = 0,
              .key_channels = step.channels(),
              .rope_channels = 0,
              .factor = 0.75f,
              .leaves_lines = together};
  if (together)
    return GemvKernelsOf(step.type)->dot.of[tiles[0].rows - 1](work);
  for (const QkTile& tile : tiles) {
    work.all = {&tile, 1, 1, step.count};
    GemvKernelsOf(step.type)->dot.of[tile.rows - 1](work);
  }
}

void Add(Step& step, int64_t keys, bool together, Floats& results) {
  std::vector<PvTile> tiles;
  for (int64_t n = 0; n < step.heads * step.of_head; ++n) {
    tiles.push_back({step.rows_of(n % step.of_head),
                     step.shift(n / step.of_head), step.operand(n, false),
                     step.result(n, false, results)});
  }
  LinePrefetcher prefetch(step.at.data(), step.at.data() + step.count, 64);
  PvArgs work{.all = {tiles.data(), step.heads, step.of_head, keys},
              .values = step.at.data(),
              .prefetch = &prefetch,
              .piece_step = 0,
              .count = step.count,
              .vectors = step.vectors};
  if (together) return GemvKernelsOf(step.type)->add[tiles[0].rows - 1](work);
  for (const PvTile& tile : tiles) {
    work.all = {&tile, 1, 1, step.count};
    GemvKernelsOf(step.type)->add[tile.rows - 1](work);
  }
}

// Scores of a single row may pass the end by three, for which there is room.
void Forget(Step& step, Floats& scores) {
  for (int64_t n = 0; n < step.heads * step.of_head; ++n) {
    if (step.rows_of(n % step.of_head) > 1) continue;
    std::fill_n(step.result(n, true, scores) + step.count, 3, kUntouched);
  }
}

TEST(Heads, ShareCallsWithTheirBits) {
  Random random(1);
  for (int n = 0; n < 300; ++n) {
    const int64_t keys = random.OneIn(3) ? 48 : random.Within(1, 12);
    for (const bool scores : {true, false}) {
      Step step(random, scores, random.OneIn(2) ? DType::kF32 : DType::kI8);
      Floats apart = step.results, together = step.results;
      const auto compute = scores ? &Score : &Add;
      compute(step, step.count, false, apart);
      compute(step, keys, true, together);
      for (Floats* const results : {&apart, &together}) {
        if (scores) Forget(step, *results);
      }
      const std::vector<float> expected = apart.all(), got = together.all();
      ASSERT_EQ(
          std::memcmp(expected.data(), got.data(), got.size() * sizeof(float)),
          0)
          << Name(step.type) << ", scores " << scores << ", " << step.heads
          << " heads of " << step.of_head << " micro-tiles, the last of "
          << step.last_rows << " rows, " << step.count << " keys, " << keys
          << " at a time";
    }
  }
}

// And is right: the first channel of the first row, in double.
TEST(Heads, AddsWhatProbsSay) {
  Random random(2);
  Step step(random, false, DType::kF32);
  Floats results = step.results;
  Add(step, 6, true, results);
  const float* const first =
      reinterpret_cast<const float*>(step.at[0]);  // head 0, channel 0
  const int width = step.rows_of(0) == 1 ? 1 : 4;
  double sum = kUntouched;
  for (int64_t j = 0; j < step.count; ++j) {
    sum += static_cast<double>(first[j * step.heads * step.channels()]) *
           static_cast<double>(step.operand(0, false)[j * width]);
  }
  EXPECT_NEAR(step.result(0, false, results)[0], sum, kUntouched * 0x1p-18);
}

// Pages of 16 keys lie apart at least twice in 48, those of 32 may once.
TEST(Heads, ReadFewKeysAtATimeWhereTheseLieApartOrAreLong) {
  const std::vector<std::byte> memory(1);
  const auto keys = [&](int64_t page, int64_t bytes, bool into_first) {
    std::vector<const std::byte*> rows;
    for (int64_t j = 0; j < kDecodeKeys; ++j) {
      rows.push_back(memory.data() + j * bytes + j / page * 4 * bytes);
    }
    return KeysOfAllHeads(rows, bytes, into_first);
  };
  EXPECT_EQ(keys(16, 2048, true), kDecodeKeysAtATime);
  EXPECT_EQ(keys(1, 2048, true), kDecodeKeysAtATime);
  EXPECT_EQ(keys(32, 2048, true), kDecodeKeys);
  EXPECT_EQ(keys(128, 2048, true), kDecodeKeys);
  EXPECT_EQ(keys(128, kDecodeLongRowBytes, true), kDecodeKeysAtATime);
  EXPECT_EQ(keys(16, 2048, false), kDecodeKeys);
  EXPECT_EQ(keys(128, kDecodeLongRowBytes, false), kDecodeKeys);
}

}  // namespace
}  // namespace flashacl::cpu
