// SPDX-License-Identifier: Apache-2.0
// Outputs of values of two keys at a time: what one key at a time makes of
// probs that are rounded to bf16, and nothing of what comes after the last key.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"
#include "cpu/targets.h"
#include "hwy/highway.h"
// After highway.h.
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

using HWY_NAMESPACE::kGemvBf16;
using HWY_NAMESPACE::kGemvPairs;
using HWY_NAMESPACE::Lanes;
using HWY_NAMESPACE::LinePrefetcher;
using HWY_NAMESPACE::PvTile;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Probs and outputs of two micro-tiles, the last of which has so many rows.
struct TwoTiles {
  struct alignas(64) Room {
    std::array<float, 4 * kDecodeScores> probs;
    std::array<float, 4096> out{};
  };

  explicit TwoTiles(int last_rows) {
    for (Room& room : rooms) room.probs.fill(kNaN);
    for (size_t n = 0; n < 2; ++n) {
      const int rows = n == 0 ? 4 : last_rows;
      tiles.at(n) = {rows, 0, rooms.at(n).probs.data(), rooms.at(n).out.data()};
    }
  }

  std::vector<Room> rooms = std::vector<Room>(2);
  std::array<PvTile, 2> tiles;
};

float RoundToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x) + 0x8000u;
  return std::bit_cast<float>(bits & 0xFFFF0000u);
}

TEST(KeyPairs, AreRoundedProbsTimesValuesOfTheirKeysAlone) {
  const int64_t channels = 4 * Lanes();
  Random random(7);
  std::vector<uint16_t> values((kDecodeKeys + 1) * channels);
  for (uint16_t& value : values) {
    value = static_cast<uint16_t>(0x3E00 + random.Within(0, 0x3FF));
    if (random.OneIn(2)) value |= 0x8000;
  }
  std::fill_n(values.end() - channels, channels, uint16_t{0x7FC0});  // NaN
  std::array<const std::byte*, kDecodeKeys + 1> rows;
  for (int last_rows = 1; last_rows <= 4; ++last_rows) {
    for (int64_t count = 1; count <= kDecodeKeys; ++count) {
      for (int64_t j = 0; j <= count; ++j) {
        const int64_t at = j < count ? j : kDecodeKeys;  // after the last: NaN
        rows.at(j) = reinterpret_cast<const std::byte*>(values.data()) +
                     2 * at * channels;
      }
      TwoTiles pairs(last_rows), floats(last_rows);
      for (size_t n = 0; n < 2; ++n) {
        const int64_t width = pairs.tiles.at(n).rows == 1 ? 1 : 4;
        for (int64_t i = 0; i < count * width; ++i) {
          const auto prob = static_cast<float>(random.Fraction());
          pairs.tiles.at(n).probs[i] = prob;
          floats.tiles.at(n).probs[i] = RoundToBf16(prob);
        }
      }
      LinePrefetcher none;
      const auto args = [&](TwoTiles& of) -> HWY_NAMESPACE::PvArgs {
        return {.all = {of.tiles.data(), 1, 2, kDecodeKeys},
                .values = rows.data(),
                .prefetch = &none,
                .piece_step = 0,
                .count = count,
                .vectors = channels / Lanes()};
      };
      kGemvPairs.add[3](args(pairs));
      kGemvBf16.add[3](args(floats));
      for (size_t n = 0; n < 2; ++n) {
        ASSERT_EQ(pairs.rooms.at(n).out, floats.rooms.at(n).out)
            << count << " keys, " << pairs.tiles.at(n).rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace flashacl::cpu
