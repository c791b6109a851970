// SPDX-License-Identifier: Apache-2.0
// Which elements become one piece. That all are copied is shown by random calls
// of the operators.
#include "pages/row_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "tests/cpu/targets.h"

namespace flashacl::pages {
namespace {

TEST(RowCopy, ElementsThatLieTogetherOnBothSidesAreOnePiece) {
  const RowCopy dense(2, {4, 1, 8}, {16, 0, 2}, {16, 0, 2});
  EXPECT_EQ(dense.piece_bytes(), 64);
  EXPECT_EQ(dense.axes(), 0);
  const RowCopy heads_apart(2, {4, 1, 8}, {16, 0, 2}, {160, 0, 2});
  EXPECT_EQ(heads_apart.piece_bytes(), 16);
  EXPECT_EQ(heads_apart.axes(), 1);
  const RowCopy all_apart(2, {4, 1, 8}, {64, 0, 4}, {16, 0, 2});
  EXPECT_EQ(all_apart.piece_bytes(), 2);
  EXPECT_EQ(all_apart.axes(), 2);
}

TEST(RowCopy, PiecesAtEqualDistancesAreOneAxis) {
  // An NZ cache of blocks of 5 rows.
  const RowCopy nz(2, {3, 4, 16}, {128, 32, 2}, {640, 160, 2});
  EXPECT_EQ(nz.piece_bytes(), 32);
  EXPECT_EQ(nz.axes(), 1);
  const RowCopy heads_apart(2, {3, 4, 16}, {128, 32, 2}, {999, 160, 2});
  EXPECT_EQ(heads_apart.piece_bytes(), 32);
  EXPECT_EQ(heads_apart.axes(), 2);
}

TEST(RowCopy, ThreeAxesApart) {
  constexpr int64_t kDims[] = {2, 3, 5};
  std::vector<std::byte> from(1000), to(1000), expected(1000);
  for (size_t n = 0; n < from.size(); ++n) {
    from[n] = static_cast<std::byte>(n * 7 % 251);
  }
  const RowAxes source{400, 90, 3}, target{7, 20, 100};
  for (int64_t a = 0; a < kDims[0]; ++a) {
    for (int64_t b = 0; b < kDims[1]; ++b) {
      for (int64_t c = 0; c < kDims[2]; ++c) {
        expected[static_cast<size_t>(a * 7 + b * 20 + c * 100)] =
            from[static_cast<size_t>(a * 400 + b * 90 + c * 3)];
      }
    }
  }
  const RowCopy copy(1, {2, 3, 5}, source, target);
  EXPECT_EQ(copy.axes(), 3);
  const RowPair row{from.data(), to.data()};
  copy(std::span(&row, 1));
  EXPECT_EQ(to, expected);
}

// Memory that begins with a line.
struct Lines {
  explicit Lines(size_t bytes) : lines(bytes / 64 + 1) {}
  struct alignas(64) Line {
    std::byte at[64]{};
  };
  std::byte* data() { return lines[0].at; }
  std::vector<Line> lines;
};

class Streaming : public ::testing::TestWithParam<int64_t> {
 protected:
  const testing::OnTarget target_{GetParam()};
};

// Rows of half lines, lines and more, side by side and apart, in blocks of
// channels on either side; some of them begin no line.
TEST_P(Streaming, CopiesWhatOthersDo) {
  constexpr int64_t kRows = 75, kPlaces = 90, kBytes = 1 << 17;
  struct Shape {
    RowAxes dims, from, to;
    int64_t from_row, to_row;
  };
  const Shape shapes[] = {
      {{1, 1, 128}, {0, 0, 2}, {0, 0, 2}, 256, 256},
      {{1, 4, 64}, {0, 128, 2}, {0, 256, 2}, 520, 1024},
      {{1, 3, 96}, {0, 200, 2}, {0, 12800, 2}, 600, 128},
      {{2, 3, 16}, {30000, 2880, 2}, {96, 32, 2}, 32, 192},
      {{1, 10, 16}, {0, 2880, 2}, {0, 32, 2}, 32, 320},
      {{1, 5, 16}, {0, 2880, 2}, {0, 32, 2}, 32, 160},
      {{1, 10, 16}, {0, 32, 2}, {0, 5760, 2}, 320, 32},
      {{2, 5, 16}, {160, 32, 2}, {40000, 5760, 2}, 320, 32},
      {{1, 1, 16}, {0, 0, 2}, {0, 0, 2}, 40, 32},
      {{1, 6, 16}, {0, 32, 2}, {0, 2880, 2}, 320, 32},
      {{1, 4, 16}, {0, 32, 2}, {0, 2896, 2}, 320, 32},
  };
  Random random(3);
  Lines from(kBytes);
  for (auto& line : from.lines) {
    for (std::byte& one : line.at) one = static_cast<std::byte>(random.Bits());
  }
  for (const Shape& shape : shapes) {
    for (const int64_t shift : {0, 0, 32, 8}) {
      Lines to(kBytes), expected(kBytes);
      std::vector<RowPair> rows, plain;
      int64_t place = random.Within(0, 1);
      for (int64_t n = 0; n < kRows && place < kPlaces; ++n) {
        const std::byte* const at = from.data() + n * shape.from_row;
        rows.push_back({at, to.data() + place * shape.to_row + shift});
        plain.push_back({at, expected.data() + place * shape.to_row + shift});
        place += random.OneIn(10) ? 2 : 1;
      }
      const RowCopy stream(2, shape.dims, shape.from, shape.to, true);
      stream(rows);
      stream.Finish();
      RowCopy(2, shape.dims, shape.from, shape.to)(plain);
      EXPECT_EQ(0, std::memcmp(to.data(), expected.data(), kBytes))
          << "shape " << &shape - shapes << " shift " << shift;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Streaming,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

TEST(RowCopy, AChunkHasARowAtLeast) {
  PagedRows part;
  part.dims = {1 << 20, 1, 1};
  EXPECT_EQ(RowsOfChunk(std::span(&part, 1), 1 << 20, 2), 1);
  part.dims = {16, 1, 2};
  EXPECT_EQ(RowsOfChunk(std::span(&part, 1), 100, 1), 2048);
  EXPECT_EQ(RowsOfChunk(std::span(&part, 1), 1 << 16, 2), 4096);
  EXPECT_EQ(RowsOfChunk(std::span(&part, 1), 1 << 24, 2), 32768);
}

}  // namespace
}  // namespace flashacl::pages
