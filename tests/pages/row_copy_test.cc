// SPDX-License-Identifier: Apache-2.0
// Which elements become one piece. That all are copied is shown by random calls
// of the operators.
#include "pages/row_copy.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(RowCopy, AChunkHasARowAtLeast) {
  PagedRows part;
  part.dims = {1 << 20, 1, 1};
  EXPECT_EQ(RowsOfChunk(std::span(&part, 1)), 1);
  part.dims = {16, 1, 2};
  EXPECT_EQ(RowsOfChunk(std::span(&part, 1)), 2048);
}

}  // namespace
}  // namespace flashacl::pages
