// SPDX-License-Identifier: Apache-2.0
// Who sees whom as bits, and what is done with them, against definitions that
// look at one row and one key at a time; on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "cpu/forward/forward_kernel.h"
#include "tests/cpu/targets.h"
#include "tests/testing/fenced.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/tile/mask_test.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/forward/forward-inl.h"

// Vector code as plain functions.
#ifndef FLASHACL_TESTS_CPU_MASK_PIECES
#define FLASHACL_TESTS_CPU_MASK_PIECES
namespace flashacl::cpu {
struct MaskPieces {
  int64_t width;  // rows of a panel
  uint32_t (*zero_bits)(const std::byte*, int64_t step, int64_t count);
  uint32_t (*bits_at)(const std::byte*, int64_t bit, int64_t step,
                      int64_t count);
  uint32_t (*band_bits)(const Band&, int64_t i, int64_t col);
  // Returns the greatest score of each lane in `block_max`.
  void (*hide)(float* scores, const uint32_t* words, int64_t count,
               float* block_max);
  void (*mark)(float* probs, const uint32_t* words, int64_t count);
  void (*drop)(float* probs, const uint32_t* words, int64_t count);
  Range (*seen_by)(const Band&, const QueryRow* query_rows, int64_t count,
                   Range cols);
  float (*add_unless_hidden)(float prob, float value);
};
}  // namespace flashacl::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

void HideOf(float* scores, const uint32_t* words, int64_t count,
            float* block_max) {
  const PanelPair greatest = HideScores(scores, words, count);
  hn::StoreU(greatest.low, kF, block_max);
  hn::StoreU(greatest.high, kF, block_max + Lanes());
}

void DropOf(float* probs, const uint32_t* words, int64_t count) {
  ReplaceProbs(probs, words, count, 0.0f);
}

Range SeenByOf(const Band& band, const QueryRow* query_rows, int64_t count,
               Range cols) {
  Panel panel{};
  panel.query_rows = query_rows;
  panel.count = count;
  return SeenBy(band, panel, cols);
}

float AddUnlessHiddenOf(float prob, float value) {
  return hn::GetLane(
      AddUnlessHidden(hn::Zero(kF), hn::Set(kF, prob), hn::Set(kF, value)));
}

MaskPieces MaskPieceTable() {
  return {Width(),    ZeroBits, BitsAt,   BandBits,         HideOf,
          MarkHidden, DropOf,   SeenByOf, AddUnlessHiddenOf};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {

FLASHACL_EXPORT(MaskPieces, MaskPieceTable);

namespace {

using testing::FencedBytes;
using testing::OnTarget;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kMaxKeys = 144;

class MaskBits : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
  const MaskPieces pieces_ = FLASHACL_DISPATCH(MaskPieceTable);
  Random random_{7};
};

// Same number, same sign, or NaN both.
void ExpectSame(float found, float expected, uint32_t from) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << from;
  } else {
    EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(expected))
        << from;
  }
}

TEST_P(MaskBits, MaskBytesBecomeBits) {
  for (int rounds = 0; rounds < 3000; ++rounds) {
    const int64_t count = random_.Within(1, 32);
    const int64_t step = random_.OneIn(2) ? 1 : random_.Within(0, 4);
    const FencedBytes memory((count - 1) * step + 1);
    for (std::byte& one : memory.span()) {
      one = static_cast<std::byte>(random_.OneIn(2)   ? 0
                                   : random_.OneIn(2) ? 1
                                                      : random_.Bits() & 0xFF);
    }
    uint32_t expected = 0;
    for (int64_t n = 0; n < count; ++n) {
      if (memory.data()[n * step] == std::byte{0}) expected |= 1u << n;
    }
    EXPECT_EQ(pieces_.zero_bits(memory.data(), step, count), expected);
  }
}

TEST_P(MaskBits, KeepBitsAreReadWhereTheyAre) {
  for (int rounds = 0; rounds < 3000; ++rounds) {
    const int64_t bit = random_.Within(0, 100);
    const int64_t count = random_.Within(1, 32);
    const int64_t step = random_.OneIn(2) ? 1 : random_.Within(0, 9);
    const FencedBytes memory(CeilDiv(bit + (count - 1) * step + 1, 8));
    for (std::byte& one : memory.span()) {
      one = static_cast<std::byte>(random_.Bits() & 0xFF);
    }
    uint32_t expected = 0;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t at = bit + n * step;
      const auto byte = std::to_integer<uint32_t>(memory.data()[at / 8]);
      expected |= ((byte >> (at % 8)) & 1u) << n;
    }
    EXPECT_EQ(pieces_.bits_at(memory.data(), bit, step, count), expected);
  }
}

Band AnyBand(Random& random) {
  Band band;
  if (random.OneIn(2)) band.lower = random.Within(-200, 100);
  if (random.OneIn(2)) band.upper = random.Within(-100, 200);
  if (random.OneIn(3)) band.prefix = random.Within(0, 200);
  return band;
}

TEST_P(MaskBits, BandBitsAreWhatTheBandSees) {
  for (int rounds = 0; rounds < 20000; ++rounds) {
    const Band band = AnyBand(random_);
    const int64_t i = random_.Within(0, 200);
    const int64_t col = random_.Within(0, 300);
    uint32_t expected = 0;
    for (int64_t n = 0; n < 32; ++n) {
      if (band.Sees(i, col + n)) expected |= 1u << n;
    }
    ASSERT_EQ(pieces_.band_bits(band, i, col), expected)
        << band.lower << " " << band.upper << " " << band.prefix << ", " << i
        << ", " << col;
  }
}

// The columns a panel takes in hold all that its rows see, and no row sees the
// last it leaves out on either side.
TEST_P(MaskBits, PanelsTakeInWhatTheirRowsSee) {
  for (int rounds = 0; rounds < 20000; ++rounds) {
    const Band band = AnyBand(random_);
    const int64_t group = random_.Within(1, 5);
    const int64_t packed = random_.Within(0, 500);
    std::vector<QueryRow> query_rows(
        static_cast<size_t>(random_.Within(1, pieces_.width)));
    for (size_t r = 0; r < query_rows.size(); ++r) {
      query_rows[r].position = (packed + static_cast<int64_t>(r)) / group;
    }
    const int64_t first = random_.Within(0, 300);
    const Range cols{first, first + random_.Within(1, 144)};
    const Range found = pieces_.seen_by(
        band, query_rows.data(), static_cast<int64_t>(query_rows.size()), cols);
    for (int64_t j = cols.first; j < cols.last; ++j) {
      const bool inside = found.first <= j && j < found.last;
      for (const QueryRow& query_row : query_rows) {
        ASSERT_TRUE(inside || !band.Sees(query_row.position, j))
            << band.lower << " " << band.upper << " " << band.prefix << ", "
            << query_row.position << ", " << j;
      }
    }
    if (found.empty()) continue;
    EXPECT_GE(found.first, cols.first);
    EXPECT_LE(found.last, cols.last);
  }
}

// Numbers for a panel of `count` keys, and a bit for each.
struct MarkedPanel {
  std::vector<float> memory;
  std::vector<uint32_t> words;
  float* scores;
  uint32_t* bits;
  int64_t width;

  MarkedPanel(int64_t count, int64_t query_rows, Random& random)
      : memory(static_cast<size_t>(count * query_rows + 16)),
        words(static_cast<size_t>(CeilDiv(count, 32) * query_rows + 16)),
        scores(Aligned(memory.data())),
        bits(Aligned(words.data())),
        width(query_rows) {
    for (float& x : memory) x = random.OneIn(50) ? NAN : random.Bell();
    for (uint32_t& word : words) word = static_cast<uint32_t>(random.Bits());
  }

  template <typename T>
  static T* Aligned(T* at) {
    const auto address = reinterpret_cast<uintptr_t>(at);
    return at + (64 - address % 64) % 64 / sizeof(T);
  }
  bool marked(int64_t j, int64_t lane) const {
    return (bits[j / 32 * width + lane] >> (j % 32) & 1u) != 0;
  }
};

TEST_P(MaskBits, HiddenScoresBecomeMinusInfinity) {
  for (int64_t count = 1; count <= kMaxKeys; ++count) {
    const MarkedPanel panel(count, pieces_.width, random_);
    const std::vector<float> before(panel.scores,
                                    panel.scores + count * pieces_.width);
    std::vector<float> block_max(static_cast<size_t>(pieces_.width));
    pieces_.hide(panel.scores, panel.bits, count, block_max.data());
    std::vector<float> greatest(block_max.size(), -kInfinity);
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t lane = 0; lane < pieces_.width; ++lane) {
        const auto n = static_cast<size_t>(j * pieces_.width + lane);
        const float expected = panel.marked(j, lane) ? before[n] : -kInfinity;
        ExpectSame(panel.scores[n], expected, static_cast<uint32_t>(n));
        float& most = greatest[static_cast<size_t>(lane)];
        most = std::fmax(most, expected);
      }
    }
    EXPECT_EQ(block_max, greatest);
  }
}

// Probs that are dropped, and those of hidden keys among infinite values.
TEST_P(MaskBits, ProbsWithoutABitBecomeZero) {
  for (int64_t count = 1; count <= kMaxKeys; ++count) {
    for (const float other : {0.0f, -0.0f}) {
      const MarkedPanel panel(count, pieces_.width, random_);
      const std::vector<float> before(panel.scores,
                                      panel.scores + count * pieces_.width);
      (std::signbit(other) ? pieces_.mark : pieces_.drop)(panel.scores,
                                                          panel.bits, count);
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t lane = 0; lane < pieces_.width; ++lane) {
          const auto n = static_cast<size_t>(j * pieces_.width + lane);
          ExpectSame(panel.scores[n], panel.marked(j, lane) ? before[n] : other,
                     static_cast<uint32_t>(n));
        }
      }
    }
  }
}

// What is marked adds nothing, whatever its value; all else is multiplied.
TEST_P(MaskBits, HiddenProbsTimesAnythingAreZero) {
  for (const float value : {2.5f, 0.0f, kInfinity, -kInfinity, NAN}) {
    for (const float prob : {-0.0f, 0.0f, 0.5f, 1.0f, NAN, -NAN}) {
      const bool hidden = prob == 0 && std::signbit(prob);
      ExpectSame(pieces_.add_unless_hidden(prob, value),
                 hidden ? 0 : prob * value, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, MaskBits,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
#endif  // FLASHACL_ONCE
