// SPDX-License-Identifier: Apache-2.0
// Which rows there are in a run, and what they see.
#include "indexer/sequences.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/indexer/tensors.h"

namespace flashacl::indexer {
namespace {

using Pieces = std::vector<std::pair<int64_t, Range>>;

Pieces Of(const RunVector<RowRange>& pieces) {
  Pieces all;
  for (const RowRange& one : pieces) all.emplace_back(one.sequence, one.rows);
  return all;
}

Rows TwoSequences(Lengths::Device device) {
  Rows rows;
  rows.problem.lengths.sequences = {{{0, 9}, {0, 20}}, {{0, 9}, {0, 20}}};
  rows.problem.lengths.queries = device;
  rows.problem[Slot::kQuery] = DenseSpec(DType::kBf16, {2, 9, 1, 4});
  rows.problem[Slot::kQueryLengths] = DenseSpec(DType::kI32, {2, 1, 1, 1});
  if (device != Lengths::Device::kNone) {
    rows.places = {{Slot::kQueryLengths, 0}};
  }
  return rows;
}

TEST(Sequences, PackedOnesEndWhereTheDeviceSays) {
  const Rows rows = TwoSequences(Lengths::Device::kEnds);
  std::array<int32_t, 2> ends{3, 7};
  std::byte* const at[] = {reinterpret_cast<std::byte*>(ends.data())};
  const Sequences sequences(rows, at);
  EXPECT_EQ(Of(sequences.Cut(2)),
            (Pieces{{0, {0, 2}}, {0, {2, 3}}, {1, {3, 5}}, {1, {5, 7}}}));
  EXPECT_EQ(Of(sequences.CutUnowned(64)), (Pieces{{0, {7, 9}}}));
}

TEST(Sequences, OthersHaveAsManyRowsAsTheDeviceSays) {
  const Rows rows = TwoSequences(Lengths::Device::kCounts);
  std::array<int32_t, 2> counts{9, 7};
  std::byte* const at[] = {reinterpret_cast<std::byte*>(counts.data())};
  const Sequences sequences(rows, at);
  EXPECT_EQ(Of(sequences.Cut(5)),
            (Pieces{{0, {0, 5}}, {0, {5, 9}}, {1, {0, 5}}, {1, {5, 7}}}));
  EXPECT_EQ(Of(sequences.CutUnowned(64)), (Pieces{{1, {7, 9}}}));
}

TEST(Sequences, CausalRowsEndAtTheBottomRight) {
  Rows rows = TwoSequences(Lengths::Device::kNone);
  EXPECT_EQ(Sequences(rows, {}).Seen(1, 0), 20);
  rows.causal = true;
  EXPECT_EQ(Sequences(rows, {}).Seen(1, 0), 12);
  EXPECT_EQ(Sequences(rows, {}).Seen(1, 8), 20);
  rows.problem.lengths.sequences[1].keys.last = 4;
  EXPECT_EQ(Sequences(rows, {}).Seen(1, 4), 0);
  EXPECT_EQ(Sequences(rows, {}).Seen(1, 5), 1);
}

}  // namespace
}  // namespace flashacl::indexer
