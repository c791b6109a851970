// SPDX-License-Identifier: Apache-2.0
// Products of rows that stay where they lie: the bits of rows that were loaded,
// as floats or as pairs, and no byte after a row is read. And which rows do.
// What it does to whole results: topk_laws_test.cc.
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "base/random.h"
#include "cpu/kv_rows.h"
#include "cpu/pair_dots.h"
#include "cpu/rows_in_place.h"
#include "cpu/sizes.h"
#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"
#include "tests/testing/fenced.h"
// After highway.h.
#include "cpu/topk/add_listed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {
// AddStep() for the heads of half a panel; `rescale`: of each lane, or null.
void AddHalf(const ListedRows& rows, int64_t channels, const float* panel,
             int64_t count, const float* rescale, float* out) {
  PrefetchQueue prefetch;
  PanelPair factors{};
  if (rescale != nullptr) factors = PanelPair::Load(rescale);
  AddStep(rows, channels, /*half=*/true, panel, count,
          rescale != nullptr ? &factors : nullptr, out, prefetch);
}
bool StaysInPlace(const ScoreTile& tile, const RowSource& source,
                  const RowSource& rope = {}) {
  return StayInPlace(tile, source, rope);
}
// Words of two channels, the first in the upper half.
void StorePairs(const std::byte* row, int64_t channels, float* to) {
  LeastOfPairs<Floats> unused;
  LoadPairs(row, channels / 2, to, unused);
}
float FloatOfNumber(DType dtype, uint16_t number) {
  return FloatOf(dtype, reinterpret_cast<const std::byte*>(&number));
}
}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace flashacl::cpu {
namespace {

using HWY_NAMESPACE::AddHalf;
using HWY_NAMESPACE::FloatOfNumber;
using HWY_NAMESPACE::kHasHalfPanels;
using HWY_NAMESPACE::kLineChannels;
using HWY_NAMESPACE::Lanes;
using HWY_NAMESPACE::ListedRows;
using HWY_NAMESPACE::StaysInPlace;
using HWY_NAMESPACE::Width;

// Numbers of 16 bits, each row before a page that nobody may read.
class Rows {
 public:
  Rows(Random& random, int64_t count, int64_t channels) : channels_(channels) {
    for (int64_t j = 0; j < count; ++j) {
      rows_.emplace_back(2 * channels);
      for (int64_t c = 0; c < channels; ++c) {
        // Infinities and NaNs of neither type.
        const auto bits = static_cast<uint16_t>(random.Within(0, 0x7BFF) |
                                                random.Within(0, 1) << 15);
        std::memcpy(rows_.back().data() + 2 * c, &bits, sizeof(bits));
      }
      at_.push_back(rows_.back().data());
    }
  }

  const std::byte* const* at() const { return at_.data(); }

  void StoreFloats(DType dtype, int64_t stride, float* to) const {
    for (size_t j = 0; j < at_.size(); ++j) {
      for (int64_t c = 0; c < channels_; ++c) {
        uint16_t bits = 0;
        std::memcpy(&bits, at_[j] + 2 * c, sizeof(bits));
        to[static_cast<int64_t>(j) * stride + c] = FloatOfNumber(dtype, bits);
      }
    }
  }

  void StorePairs(int64_t stride, float* to) const {
    for (const std::byte* row : at_) {
      HWY_NAMESPACE::StorePairs(row, channels_, to);
      to += stride;
    }
  }

 private:
  int64_t channels_;
  std::vector<testing::FencedBytes> rows_;
  std::vector<const std::byte*> at_;
};

hwy::AlignedFreeUniquePtr<float[]> Numbers(Random& random, int64_t count) {
  auto floats = hwy::AllocateAligned<float>(count);
  for (int64_t n = 0; n < count; ++n) {
    floats[n] = random.Bell();
  }
  return floats;
}

struct Shape {
  DType dtype;
  int64_t count, channels, ropes;
  bool rescales;
};

Shape RandomShape(Random& random) {
  Shape shape{};
  shape.dtype = random.Within(0, 1) == 0 ? DType::kBf16 : DType::kF16;
  shape.count = random.Within(1, kMaxStepKeys);
  shape.channels = random.Within(1, 100);
  shape.rescales = random.Within(0, 1) == 0;
  if (random.Within(0, 1) == 0) {
    shape.channels = kLineChannels * random.Within(1, 3);
    shape.ropes = random.Within(1, 70);
  }
  return shape;
}

// Of the heads of half a panel, which are all that there are.
void ExpectSameSums(const Shape& shape, const float* sums,
                    const float* expected) {
  for (int64_t c = 0; c < shape.channels + shape.ropes; ++c) {
    for (int64_t lane = 0; lane < Lanes(); ++lane) {
      const int64_t n = c * Width() + lane;
      ASSERT_EQ(std::bit_cast<uint32_t>(sums[n]),
                std::bit_cast<uint32_t>(expected[n]))
          << "channel " << c << " of " << shape.channels << " + " << shape.ropes
          << ", lane " << lane << ", " << shape.count << " keys";
    }
  }
}

void ExpectBitsOfLoadedRows(Random& random, const Shape& shape) {
  const int64_t all = shape.channels + shape.ropes;
  const Rows rows(random, shape.count, shape.channels);
  const Rows ropes(random, shape.count, shape.ropes);
  const int64_t stride = RowStride(all);
  const auto panel = Numbers(random, shape.count * Width());
  const auto rescale = Numbers(random, Width());
  const int64_t room = BlocksRoom(all) * Width();
  const auto before = Numbers(random, room);
  const auto sums_of = [&](const ListedRows& step) {
    auto sums = hwy::AllocateAligned<float>(room);
    std::memcpy(sums.get(), before.get(), room * sizeof(float));
    AddHalf(step, all, panel.get(), shape.count,
            shape.rescales ? rescale.get() : nullptr, sums.get());
    return sums;
  };
  const auto in_place = sums_of({nullptr,
                                 0,
                                 false,
                                 {shape.dtype, rows.at(), shape.channels,
                                  shape.ropes == 0 ? nullptr : ropes.at()}});
  auto loaded = Numbers(random, shape.count * stride);
  rows.StoreFloats(shape.dtype, stride, loaded.get());
  ropes.StoreFloats(shape.dtype, stride, loaded.get() + shape.channels);
  ASSERT_NO_FATAL_FAILURE(ExpectSameSums(
      shape, in_place.get(), sums_of({loaded.get(), stride, false}).get()));
  if (!kListedRowsStayPairs || shape.dtype != DType::kBf16 || all % 2 != 0 ||
      shape.ropes % 2 != 0) {
    return;
  }
  rows.StorePairs(stride, loaded.get());
  ropes.StorePairs(stride, loaded.get() + shape.channels / 2);
  ASSERT_NO_FATAL_FAILURE(ExpectSameSums(
      shape, in_place.get(), sums_of({loaded.get(), stride, true}).get()));
}

TEST(RowsInPlace, HaveTheBitsOfLoadedRows) {
  Random random(11);
  for (int n = 0; n < 200; ++n) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectBitsOfLoadedRows(random, RandomShape(random)));
  }
}

// A tile of 16 bits whose values are apart, where rows may stay in place.
struct Tile {
  std::vector<std::byte> memory = std::vector<std::byte>(3);
  ScoreTile tile;

  Tile(DType dtype, PairDots dots) {
    SetRowsInPlaceForTest(true);
    tile.dots = dots;
    tile.rows = Lanes();
    size_t n = 0;
    for (RowSource* source :
         {&tile.keys.key, &tile.keys.rope, &tile.keys.value}) {
      source->base = &memory.at(n++);
      source->format.dtype = dtype;
      source->format.element_bytes = 2;
      source->channels = 64;
    }
  }
  ~Tile() { SetRowsInPlaceForTest({}); }

  bool ValuesStay() const { return StaysInPlace(tile, tile.keys.values()); }
  bool KeysStay() const {
    return StaysInPlace(tile, tile.keys.key, tile.keys.rope);
  }
};

class WhichRowsInPlace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasHalfPanels)
      GTEST_SKIP() << "runs on x86: panels have halves there";
  }
};

TEST_F(WhichRowsInPlace, AreThoseOfFewHeads) {
  Tile some(DType::kBf16, PairDots::kInstruction);
  EXPECT_TRUE(some.ValuesStay());
  EXPECT_TRUE(some.KeysStay());
  SetRowsInPlaceForTest(false);
  EXPECT_FALSE(some.ValuesStay());
  SetRowsInPlaceForTest(true);
  some.tile.rows = Lanes() + 1;
  EXPECT_FALSE(some.ValuesStay());
  EXPECT_FALSE(some.KeysStay());
}

TEST_F(WhichRowsInPlace, AreNotWhatIsFloatsOrMatrices) {
  Tile of_floats(DType::kF16, PairDots::kNone);
  EXPECT_TRUE(of_floats.ValuesStay());
  EXPECT_FALSE(of_floats.KeysStay());
  of_floats.tile.keys.value.base = nullptr;  // values are keys
  EXPECT_FALSE(of_floats.ValuesStay());
  EXPECT_FALSE(Tile(DType::kBf16, PairDots::kMatrices).ValuesStay());
  EXPECT_FALSE(Tile(DType::kF32, PairDots::kNone).ValuesStay());
  EXPECT_FALSE(Tile(DType::kI8, PairDots::kNone).ValuesStay());
}

TEST_F(WhichRowsInPlace, LieSideBySideAndRopesFollowWholeLines) {
  Tile some(DType::kBf16, PairDots::kInstruction);
  some.tile.keys.value.format.step = 2;
  EXPECT_FALSE(some.ValuesStay());
  some.tile.keys.value.format.step = 1;
  some.tile.keys.value.format.channel_block = 16;
  EXPECT_FALSE(some.ValuesStay());
  some.tile.keys.rope.format.step = 2;
  EXPECT_FALSE(some.KeysStay());
  some.tile.keys.rope.format.step = 1;
  some.tile.keys.rope.format.channel_block = 16;
  EXPECT_FALSE(some.KeysStay());
  some.tile.keys.rope.format.channel_block = 0;
  EXPECT_TRUE(some.KeysStay());
  some.tile.keys.key.channels = 48;
  EXPECT_FALSE(some.KeysStay());
  some.tile.keys.rope.base = nullptr;
  EXPECT_TRUE(some.KeysStay());
}

}  // namespace
}  // namespace flashacl::cpu
