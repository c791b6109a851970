// SPDX-License-Identifier: Apache-2.0
// How many lines the products of a step prefetch: as many as scores read, or a
// quarter less, shared by the micro-tiles of a head; on matrix registers of 8
// bits as many as they are told. And whose values go with scores, and which
// tiles prefetch slowly.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cpu/targets.h"
#include "hwy/highway.h"
// After highway.h.
#include "cpu/decode/byte_matrices-inl.h"
#include "cpu/decode/decode_step-inl.h"
#include "cpu/decode/decode_tile-inl.h"
#include "cpu/decode/gemv_args-inl.h"
#include "cpu/decode/step_prefetch-inl.h"
#include "cpu/tile/prefetch-inl.h"
#include "cpu/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {
int64_t LinesLeft(LinePrefetcher& prefetch) {
  int64_t lines = 0;
  for (; prefetch.any(); ++lines) prefetch.Take(1);
  return lines;
}
int64_t SoftmaxLines(const DecodeTile& decode, int64_t count) {
  return LinesWithSoftmax(decode, count);
}
bool MayLeaveLines(const DecodeTile& decode) { return LeavesLines(decode); }
bool MayLeaveToSoftmax(const DecodeTile& decode) {
  return LeavesLinesToSoftmax(decode);
}
bool LeavesToSoftmax(const DecodeTile& decode, bool in_sections, bool is_zen4) {
  return LeavesLinesToSoftmax(decode, in_sections, is_zen4);
}
bool ValuesGoAhead(int64_t row_bytes, int64_t keys, bool is_zen4) {
  return PrefetchesValuesAhead(row_bytes, keys, is_zen4);
}
bool ScoresSlowly(const DecodeTile& decode, bool of_several, bool into_first,
                  bool is_zen4) {
  return ScoresPrefetchSlowly(decode, of_several, into_first, is_zen4);
}
bool OutputsSlowly(const DecodeTile& decode, bool into_first, bool is_zen4) {
  return OutputsPrefetchSlowly(decode, into_first, is_zen4);
}
// Which parts of a micro-tile's work prefetch: of number `n` of so many.
std::vector<bool> TurnsOfParts(int64_t of_head, int64_t keys, int64_t n,
                               int registers = 32) {
  const TilesOf<QkTile> all{nullptr, 1, of_head, keys};
  PrefetchTurns turns = TurnsOf(all, of_head, n, registers);
  std::vector<bool> parts(6);
  for (auto&& part : parts) part = turns.Next();
  return parts;
}
// Lines that are left of rows that lie so many bytes apart.
int64_t LinesLeftOfRows(int64_t count, int64_t bytes, int64_t apart) {
  const std::vector<std::byte> memory(count * apart);
  std::vector<const std::byte*> rows(count);
  for (int64_t j = 0; j < count; ++j) rows[j] = memory.data() + j * apart;
  LinePrefetcher prefetch(rows.data(), rows.data() + count, bytes);
  prefetch.PrefetchLines(LinesOfRows(count, bytes));
  return LinesLeft(prefetch);
}
// How often each line of a row is prefetched that has so many bytes for each of
// so many columns, begins so many bytes after a line, and goes by steps.
std::vector<int> TimesOfLines(int64_t skew, int64_t bytes, int64_t columns,
                              int64_t step) {
  alignas(kLineBytes) static constexpr std::array<std::byte, 4096> kMemory{};
  std::vector<int> times(kMemory.size() / kLineBytes);
  for (int64_t j = 0; j < columns; j += step) {
    const ColumnLines lines(kMemory.data() + skew, bytes,
                            {j, std::min(j + step, columns)});
    for (const std::byte* line = lines.first; line < lines.last;
         line += kLineBytes) {
      ++times.at((line - kMemory.data()) / kLineBytes);
      EXPECT_EQ((line - kMemory.data()) % kLineBytes, 0);
    }
  }
  return times;
}
// Registers of this processor would have to be configured.
constexpr ByteKernels kOnMatrices = MakeMatrixByteKernels<EmulatedMatrices>();
}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace flashacl::cpu {
namespace {

using HWY_NAMESPACE::DecodeTile;
using HWY_NAMESPACE::DotKernels;
using HWY_NAMESPACE::GemvKernelsOf;
using HWY_NAMESPACE::kByteProducts;
using HWY_NAMESPACE::kLineBytes;
using HWY_NAMESPACE::kMatrixBytes;
using HWY_NAMESPACE::kOnMatrices;
using HWY_NAMESPACE::kVectorRegisters;
using HWY_NAMESPACE::Lanes;
using HWY_NAMESPACE::LeavesToSoftmax;
using HWY_NAMESPACE::LinePrefetcher;
using HWY_NAMESPACE::LinesLeft;
using HWY_NAMESPACE::LinesLeftOfRows;
using HWY_NAMESPACE::MayLeaveLines;
using HWY_NAMESPACE::MayLeaveToSoftmax;
using HWY_NAMESPACE::OutputsSlowly;
using HWY_NAMESPACE::PvTile;
using HWY_NAMESPACE::QkTile;
using HWY_NAMESPACE::ScoresSlowly;
using HWY_NAMESPACE::SoftmaxLines;
using HWY_NAMESPACE::TimesOfLines;
using HWY_NAMESPACE::TurnsOfParts;
using HWY_NAMESPACE::ValueOrder;
using HWY_NAMESPACE::ValuesGoAhead;

constexpr int64_t kLines = 4096;  // to prefetch, more than anything takes

// Rows of zeros for any operand, and lines to prefetch.
class StepPrefetch : public testing::Test {
 protected:
  StepPrefetch() {
    for (size_t j = 0; j < keys_.size(); ++j) {
      keys_.at(j) = lines_.data() + j * 512;
    }
  }

  // Aligned room that holds zeros.
  float* room(size_t n) { return rooms_.at(n).data(); }

  // How many of the lines work(prefetch) takes.
  template <typename Work>
  int64_t LinesTakenBy(const Work& work) const {
    const std::byte* const first = lines_.data();
    const LinePrefetcher all(&first, &first + 1, kLines * kLineBytes, false);
    LinePrefetcher prefetch = all;
    work(prefetch);
    return kLines - LinesLeft(prefetch);
  }

  int64_t LinesOfScores(DType type, int rows, int64_t channels, bool leaves) {
    return LinesOfScores(type, 1, rows, channels, leaves);
  }

  // Of so many micro-tiles of a head, the last of which has so many rows.
  int64_t LinesOfScores(DType type, int of_head, int last_rows,
                        int64_t channels, bool leaves) {
    const DotKernels& dot = GemvKernelsOf(type)->dot;
    std::vector<QkTile> tiles(of_head, {4, 0, 0, room(0), room(1), room(2)});
    tiles.back().rows = last_rows;
    return LinesTakenBy([&](LinePrefetcher& prefetch) {
      dot.of[tiles[0].rows - 1]({.all = {tiles.data(), 1, of_head, kDecodeKeys},
                                 .keys = keys(),
                                 .ropes = nullptr,
                                 .prefetch = &prefetch,
                                 .count = kDecodeKeys,
                                 .piece_step = 0,
                                 .key_channels = channels,
                                 .rope_channels = 0,
                                 .factor = 1,
                                 .leaves_lines = leaves});
    });
  }

  int64_t LinesOfOutputs(DType type, int of_head, int last_rows,
                         int64_t channels) {
    std::vector<PvTile> tiles(of_head, {4, 0, room(0), room(1)});
    tiles.back().rows = last_rows;
    return LinesTakenBy([&](LinePrefetcher& prefetch) {
      GemvKernelsOf(type)->add[tiles[0].rows - 1](
          {.all = {tiles.data(), 1, of_head, kDecodeKeys},
           .values = keys(),
           .prefetch = &prefetch,
           .piece_step = 0,
           .count = kDecodeKeys,
           .vectors = channels / Lanes()});
    });
  }

  const std::byte* const* keys() const { return keys_.data(); }

 private:
  struct alignas(64) Room {
    std::array<float, 16384> floats{};
    float* data() { return floats.data(); }
  };

  const std::vector<std::byte> lines_ =
      std::vector<std::byte>(kLines * kLineBytes);
  std::array<const std::byte*, kDecodeKeys> keys_;
  std::vector<Room> rooms_ = std::vector<Room>(3);
};

TEST_F(StepPrefetch, OfScoresIsWhatTheyReadOrAQuarterLess) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBf16}) {
    const int64_t of_line = kLineBytes / (type == DType::kF32 ? 4 : 2);
    for (int rows = 1; rows <= 4; ++rows) {
      for (const int64_t lines : {1, 2, 4, 6, 8}) {
        const int64_t read = kDecodeKeys * lines;
        EXPECT_EQ(LinesOfScores(type, rows, lines * of_line, false), read)
            << Name(type) << ", " << rows << " rows, " << lines << " lines";
        // What is left is whole lines of all keys that are scored at a time.
        const int64_t fewer = LinesOfScores(type, rows, lines * of_line, true);
        EXPECT_LE(fewer, read * 3 / 4);
        EXPECT_GT(fewer, read * 3 / 4 - 8)
            << Name(type) << ", " << rows << " rows, " << lines << " lines";
      }
    }
  }
}

TEST(PrefetchTurns, GoRoundWhereStepsAreWhole) {
  const std::vector<bool> all(6, true), none(6, false);
  EXPECT_EQ(TurnsOfParts(1, kDecodeKeys, 0), all);
  EXPECT_EQ(TurnsOfParts(3, kDecodeKeys - 1, 0), all);
  EXPECT_EQ(TurnsOfParts(3, kDecodeKeys - 1, 1), none);
  EXPECT_EQ(TurnsOfParts(3, kDecodeKeys, 0, 16), all);
  EXPECT_EQ(TurnsOfParts(3, kDecodeKeys, 2, 16), none);
  const std::vector<bool> first{true, false, false, true, false, false};
  const std::vector<bool> last{false, false, true, false, false, true};
  EXPECT_EQ(TurnsOfParts(3, kDecodeKeys, 0), first);
  EXPECT_EQ(TurnsOfParts(3, kDecodeKeys, 2), last);
}

// Micro-tiles may take different numbers of keys at a time, so some lines may
// be missed, or some too many.
TEST_F(StepPrefetch, OfAHeadIsSharedByItsMicroTiles) {
  constexpr int64_t kLinesOfRow = 8, kRead = kDecodeKeys * kLinesOfRow;
  for (const DType type :
       {DType::kF32, DType::kF16, DType::kBf16, DType::kI8}) {
    const int64_t channels = kLinesOfRow * kLineBytes / SizeOf(type);
    for (int of_head = 2; of_head <= 4; ++of_head) {
      for (int last_rows = 1; last_rows <= 4; ++last_rows) {
        const auto what = [&] {
          return testing::Message()
                 << Name(type) << ", " << of_head
                 << " micro-tiles, the last of " << last_rows << " rows";
        };
        EXPECT_NEAR(LinesOfScores(type, of_head, last_rows, channels, false),
                    kRead, kRead / 6)
            << what();
        EXPECT_NEAR(LinesOfOutputs(type, of_head, last_rows, channels), kRead,
                    kRead / 6)
            << what();
      }
    }
  }
}

// Of 8 bits, whose shares of what is told are rounded up.
class BytePrefetch : public StepPrefetch {
 protected:
  static constexpr int64_t kChannels = 128;

  int64_t LinesOfDot(int rows, int64_t count, int64_t lines) {
    return LinesTakenBy([&](LinePrefetcher& prefetch) {
      kOnMatrices.dot[rows - 1]({.rows = keys(),
                                 .shift = 0,
                                 .keys = room(0),
                                 .count = count,
                                 .channels = kChannels,
                                 .query = reinterpret_cast<int32_t*>(room(1)),
                                 .offset = room(1),
                                 .factor = 1,
                                 .prefetch = &prefetch,
                                 .lines = lines,
                                 .scores = room(2)});
    });
  }
  int64_t LinesOfAdd(int rows, int64_t count, int64_t lines) {
    return LinesTakenBy([&](LinePrefetcher& prefetch) {
      kOnMatrices.add[rows - 1]({.values = room(0),
                                 .count = count,
                                 .vectors = kChannels / Lanes(),
                                 .prefetch = &prefetch,
                                 .lines = lines,
                                 .probs = room(1),
                                 .out = room(2)});
    });
  }
  int64_t LinesOfPacking(int64_t count, int64_t lines) {
    return LinesTakenBy([&](LinePrefetcher& prefetch) {
      kOnMatrices.pack_values({.rows = keys(),
                               .shift = 0,
                               .count = count,
                               .channels = kChannels,
                               .packed = room(0),
                               .prefetch = &prefetch,
                               .lines = lines});
    });
  }
};

TEST_F(BytePrefetch, OnMatricesIsWhatTheyAreTold) {
  constexpr int64_t kMost = LinePrefetcher::kMaxTaken;
  constexpr int64_t kProducts = 3 * kChannels / kMatrixBytes;
  for (const int64_t count : {5, 32, 48}) {
    for (const int64_t lines : {0, 8, 12, 36, 72, 144}) {
      for (int rows = 1; rows <= 4; ++rows) {
        const int64_t of_dot = LinesOfDot(rows, count, lines);
        EXPECT_GE(of_dot, lines) << count << " keys";
        EXPECT_LT(of_dot, lines == 0 ? 1 : lines + kProducts + kMost);
        const int64_t of_add = LinesOfAdd(rows, count, lines);
        EXPECT_GE(of_add, lines) << count << " keys";
        EXPECT_LT(of_add, lines == 0 ? 1 : lines + 3 + kMost);
      }
      const int64_t groups = (count + 3) / 4;
      const int64_t packing = LinesOfPacking(count, lines / 12);
      EXPECT_GE(packing, groups * (lines / 12));
      EXPECT_LT(packing, groups * (lines / 12) + kMost);
    }
  }
}

// A tile of so many rows with keys of 256 bytes.
int64_t SoftmaxLinesOf(int64_t rows, bool has_values,
                       const std::function<void(DecodeTile&)>& change) {
  const std::byte value{};
  ForwardTile tile{};
  tile.rows = rows;
  tile.keys.value.base = has_values ? &value : nullptr;
  DecodeTile decode{};
  decode.tile = &tile;
  decode.keys.bytes = decode.values.bytes = 256;
  change(decode);
  return SoftmaxLines(decode, 48);
}

TEST(SoftmaxPrefetch, IsAQuarterSharedByMicroTilesOrNothing) {
  const auto nothing = [](DecodeTile&) {};
  const auto leaves = [](DecodeTile& tile) { tile.leaves_lines = true; };
  const auto matrices = [](DecodeTile& tile) { tile.matrix_scores = true; };
  const auto bytes = [](DecodeTile& tile) { tile.bytes = &kOnMatrices; };
  const auto products = [](DecodeTile& tile) { tile.bytes = &kByteProducts; };
  EXPECT_EQ(SoftmaxLinesOf(4, true, nothing), 0);
  EXPECT_EQ(SoftmaxLinesOf(4, true, products), 0);
  for (const auto& change :
       std::vector<std::function<void(DecodeTile&)>>{leaves, matrices, bytes}) {
    EXPECT_EQ(SoftmaxLinesOf(1, true, change), 48);
    EXPECT_EQ(SoftmaxLinesOf(4, true, change), 48);
    EXPECT_EQ(SoftmaxLinesOf(8, true, change), 24);
    EXPECT_EQ(SoftmaxLinesOf(40, true, change), 5);
    EXPECT_EQ(SoftmaxLinesOf(4, false, change), 24);  // half of the next keys
  }
}

TEST(StepPrefetches, AreSlowOrLeftToSoftmaxWhereProductsAreFew) {
  struct Case {
    DType type;
    int slow, leaving;  // the most rows
  };
  ForwardTile tile{};
  DecodeTile decode{};
  decode.tile = &tile;
  for (const auto& [type, slow, leaving] :
       {Case{DType::kF32, 4, 8}, Case{DType::kBf16, 2, 4},
        Case{DType::kI8, 0, 0}, Case{DType::kI4x8, 0, 0}}) {
    tile.keys.key.format.dtype = type;
    tile.keys.key.format.element_bytes = SizeOf(type);
    for (tile.rows = 1; tile.rows <= 12; ++tile.rows) {
      SCOPED_TRACE(testing::Message()
                   << tile.rows << " rows of " << Name(type));
      for (const bool several : {false, true}) {
        EXPECT_EQ(ScoresSlowly(decode, several, true, false), several);
        EXPECT_EQ(ScoresSlowly(decode, several, false, true),
                  tile.rows <= slow);
        EXPECT_FALSE(ScoresSlowly(decode, several, false, false));
        decode.int16 = true;
        EXPECT_EQ(ScoresSlowly(decode, several, true, false), several);
        EXPECT_EQ(ScoresSlowly(decode, several, false, true), tile.rows == 1);
        decode.int16 = false;
      }
      for (const bool of_keys : {false, true}) {
        decode.pairs_of_keys = of_keys;
        EXPECT_FALSE(OutputsSlowly(decode, true, false));
        EXPECT_EQ(OutputsSlowly(decode, false, true),
                  of_keys || tile.rows <= slow);
        EXPECT_FALSE(OutputsSlowly(decode, false, false));
      }
      decode.pairs_of_keys = false;
      for (const bool pairs : {false, true}) {
        decode.pairs = pairs;
        EXPECT_EQ(LeavesToSoftmax(decode, false, true),
                  pairs || tile.rows <= leaving);
        EXPECT_TRUE(LeavesToSoftmax(decode, true, false));
        EXPECT_FALSE(LeavesToSoftmax(decode, false, false));
      }
    }
  }
}

// Where rows are read in place, and takes are of one, two or four lines.
TEST(SoftmaxPrefetch, IsLeftLinesByVectorsThatReadInPlace) {
  const std::byte value{};
  ForwardTile tile{};
  tile.keys.value.base = &value;
  DecodeTile decode{};
  decode.tile = &tile;
  for (tile.rows = 1; tile.rows <= 8; ++tile.rows) {
    const bool takes_three = kVectorRegisters < 32 && tile.rows >= 4;
    EXPECT_EQ(MayLeaveLines(decode), MayLeaveToSoftmax(decode) && !takes_three)
        << tile.rows << " rows";
  }
  tile.rows = 1;
  decode.keys.staged = true;
  EXPECT_FALSE(MayLeaveLines(decode));
  decode.keys.staged = false;
  decode.values.blocked = true;
  EXPECT_FALSE(MayLeaveLines(decode));
}

TEST(ValuePrefetch, GoesAheadInSeveralShortStepsOnZen4) {
  constexpr int64_t kShort = kDecodeAheadBytes / kDecodeKeys;
  EXPECT_TRUE(ValuesGoAhead(kShort, kDecodeAheadKeys, true));
  EXPECT_TRUE(ValuesGoAhead(64, 1 << 20, true));
  EXPECT_FALSE(ValuesGoAhead(kShort + 1, kDecodeAheadKeys, true));
  EXPECT_FALSE(ValuesGoAhead(kShort, kDecodeAheadKeys - 1, true));
  EXPECT_FALSE(ValuesGoAhead(kShort, kDecodeAheadKeys, false));
}

// Each step's values go once: with its own scores, at once, or a step before.
TEST(ValuePrefetch, TakesTheValuesOfEachStepOnce) {
  for (const bool ahead : {false, true}) {
    ValueOrder order(ahead);
    std::vector<int> went;
    for (int step = 0; step < 8; ++step) {
      // Nothing follows step 4, so step 5 is a first one.
      if (step == 0 || step == 5) order.Restart();
      const auto go = [&](int which) {
        if (which != 5 || step != 4) went.push_back(which);
      };
      go(order.next_with_scores() ? step + 1 : step);
      if (order.NextAtOnce()) go(step + 1);
    }
    if (ahead) {
      EXPECT_EQ(went, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    } else {
      EXPECT_EQ(went, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
    }
  }
}

// Of a row's biases or mask each line that begins within it, once.
TEST(BiasPrefetch, TakesEachLineOnce) {
  for (const int64_t bytes : {1, 2, 4}) {
    for (int64_t skew = 0; skew < 2 * kLineBytes; skew += bytes) {
      for (const int64_t columns : {1, 47, 48, 49, 131, 480}) {
        const std::vector<int> times =
            TimesOfLines(skew, bytes, columns, kDecodeKeys);
        for (int64_t n = 0; n < std::ssize(times); ++n) {
          const int64_t at = n * kLineBytes - skew;
          ASSERT_EQ(times[n], at >= 0 && at < columns * bytes ? 1 : 0)
              << "line " << n << " of " << columns << " columns of " << bytes
              << " bytes from " << skew;
        }
      }
    }
  }
}

TEST(ValuePrefetch, CountsLinesOfRowsThatLieApart) {
  EXPECT_EQ(LinesLeftOfRows(48, 96, 256), 0);
  EXPECT_EQ(LinesLeftOfRows(48, 96, 96), 0);
  EXPECT_EQ(LinesLeftOfRows(5, 64, 4096), 0);
}

}  // namespace
}  // namespace flashacl::cpu
