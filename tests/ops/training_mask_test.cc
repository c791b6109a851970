// SPDX-License-Identifier: Apache-2.0
// Sparse modes draw the documents' pictures, and mask tensors are found where
// their shape says.
#include "ops/training_mask.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/arguments.h"

namespace flashacl::ops {
namespace {

using testing::Dense;
using testing::kTrainingNames;

struct Lengths {
  std::vector<int64_t> rows, columns;
};

Batch BatchOf(const Lengths& lengths) {
  Batch batch;
  for (size_t b = 0; b < lengths.rows.size(); ++b) {
    batch.sequences.push_back(
        {{batch.rows, batch.rows + lengths.rows[b]},
         {batch.columns, batch.columns + lengths.columns[b]}});
    batch.rows += lengths.rows[b];
    batch.columns += lengths.columns[b];
    batch.max_rows = std::max(batch.max_rows, lengths.rows[b]);
    batch.max_columns = std::max(batch.max_columns, lengths.columns[b]);
    batch.scores += lengths.rows[b] * lengths.columns[b];
  }
  return batch;
}

Training Call(const Lengths& lengths, int64_t mode, int64_t pre, int64_t next) {
  return {.names = &kTrainingNames,
          .head_num = 2,
          .batch = BatchOf(lengths),
          .sparse_mode = mode,
          .pre_tokens = Tokens(pre),
          .next_tokens = Tokens(next)};
}

// Two sequences of one size.
Training EqualCall(int64_t rows, int64_t columns, int64_t mode, int64_t pre,
                   int64_t next) {
  Training training = Call({{rows, rows}, {columns, columns}}, mode, pre, next);
  training.layout = &kBnsd;
  training.batch = DenseBatch(2, rows, columns);
  return training;
}

// '1' where sequence b's row i sees column j, rows separated by blanks.
std::string Picture(const Training& training, int64_t b = 0) {
  const flashacl::Mask mask = SparseRules(training);
  const Sequence& s = training.batch.sequences[static_cast<size_t>(b)];
  const Band band = mask.BandOf(b, s.rows(), s.columns());
  std::string picture;
  for (int64_t i = 0; i < s.rows(); ++i) {
    if (i > 0) picture += ' ';
    for (int64_t j = 0; j < s.columns(); ++j) {
      picture += band.Sees(i, j) ? '1' : '.';
    }
  }
  return picture;
}

// The pictures of the documents.
TEST(SparseRules, DrawTheDocumentsPictures) {
  EXPECT_EQ(Picture(Call({{4}, {6}}, 0, 1, 2)), "111... 1111.. .1111. ..1111");
  EXPECT_EQ(Picture(Call({{3}, {5}}, 2, 0, 0)), "1.... 11... 111..");
  EXPECT_EQ(Picture(Call({{3}, {5}}, 3, 0, 0)), "111.. 1111. 11111");
  EXPECT_EQ(Picture(Call({{5}, {3}}, 3, 0, 0)), "... ... 1.. 11. 111");
  EXPECT_EQ(Picture(Call({{4}, {6}}, 4, 1, 0)), ".11... ..11.. ...11. ....11");
  EXPECT_EQ(Picture(Call({{4}, {6}}, 4, 2, -1)), "11.... .11... ..11.. ...11.");
}

TEST(SparseRules, DrawPrefixes) {
  const auto picture = [](const Lengths& lengths, int64_t prefix) {
    Training training = Call(lengths, 6, 0, 0);
    training.prefix = {prefix};
    return Picture(training);
  };
  EXPECT_EQ(picture({{4}, {4}}, 2), "11.. 11.. 111. 1111");
  EXPECT_EQ(picture({{3}, {5}}, 4), "1111. 1111. 11111");
  EXPECT_EQ(picture({{5}, {3}}, 1), "1.. 1.. 1.. 11. 111");
}

// Sequences packed and then cut across two cards: modes 7 and 8.
TEST(SparseRules, DrawCutSequences) {
  const Training last = Call({{3, 2}, {3, 6}}, 7, 6, -2);
  EXPECT_EQ(Picture(last, 0), "1.. 11. 111");
  EXPECT_EQ(Picture(last, 1), "111... 1111..");
  const Training first = Call({{3, 5}, {4, 5}}, 8, 4, 1);
  EXPECT_EQ(Picture(first, 0), "111. 1111 1111");
  EXPECT_EQ(Picture(first, 1), "1.... 11... 111.. 1111. 11111");
}

// The band is that of the first or last sequence with queries.
TEST(SparseRules, CutSequencesMayBeSurroundedByEmptyOnes) {
  const Training last = Call({{1, 2, 0}, {1, 6, 3}}, 7, 6, -2);
  EXPECT_EQ(Picture(last, 1), "111... 1111..");
  const Training first = Call({{0, 3}, {2, 4}}, 8, 4, 1);
  EXPECT_EQ(Picture(first, 1), "111. 1111 1111");
}

TEST(SparseRules, TokensBeyondTheSequencesHideNothing) {
  EXPECT_TRUE(SparseRules(Call({{4}, {6}}, 0, 65536, 65536)).rules.empty());
  EXPECT_TRUE(
      SparseRules(Call({{4}, {6}}, 0, INT64_MAX, INT64_MAX)).rules.empty());
  EXPECT_TRUE(SparseRules(Call({{4}, {6}}, 1, 0, 0)).rules.empty());
  // As far as there are rows is not as far as there are columns.
  EXPECT_EQ(Picture(Call({{4}, {6}}, 0, 6, 4)), "11111. 111111 111111 111111");
}

// A sequence without scores may say anything.
TEST(SparseRules, PrefixesAreWithinWhatABandTakes) {
  Training training = Call({{4, 0, 4}, {4, 4, 4}}, 6, 0, 0);
  training.prefix = {2, -3, INT64_MAX};
  const flashacl::Mask mask = SparseRules(training);
  ASSERT_EQ(mask.rules.size(), 3u);
  EXPECT_EQ(mask.rules[0].band.prefix, 2);
  EXPECT_EQ(mask.rules[1].band.prefix, 0);
  EXPECT_EQ(mask.rules[2].band.prefix, Band::kOpen);
}

TEST(CheckSparseMode, KnowsThoseOfPackedSequences) {
  for (const int64_t mode : {0, 1, 2, 3, 4, 6, 7, 8}) {
    EXPECT_TRUE(CheckSparseMode(Call({{1}, {1}}, mode, 0, 0)).ok()) << mode;
  }
  for (const int64_t mode : {-1, 5, 9, 99}) {
    EXPECT_EQ(CheckSparseMode(Call({{1}, {1}}, mode, 0, 0)).code(),
              Code::kContradiction)
        << mode;
  }
}

TEST(CheckSparseMode, KnowsThoseOfDenseLayouts) {
  for (const int64_t mode : {0, 1, 2, 3, 4, 5, 6}) {
    EXPECT_TRUE(CheckSparseMode(EqualCall(1, 1, mode, 0, 0)).ok()) << mode;
  }
  for (const int64_t mode : {-1, 7, 8, 9}) {
    EXPECT_EQ(CheckSparseMode(EqualCall(1, 1, mode, 0, 0)).code(),
              Code::kContradiction)
        << mode;
  }
}

// The band must meet the scores, counted from the top left. Backward also takes
// what only touches them.
TEST(CheckTokens, OfDenseLayoutsAskForABandThatMeetsTheScores) {
  const auto forward = [](int64_t mode, int64_t pre, int64_t next) {
    return CheckForwardTokens(EqualCall(4, 6, mode, pre, next)).ok();
  };
  const auto backward = [](int64_t mode, int64_t pre, int64_t next) {
    return CheckBackwardTokens(EqualCall(4, 6, mode, pre, next)).ok();
  };
  EXPECT_TRUE(forward(0, -5, 5));
  EXPECT_FALSE(forward(0, -6, 6));
  EXPECT_FALSE(forward(0, -5, 4));
  EXPECT_TRUE(forward(0, 3, -3));
  EXPECT_FALSE(forward(0, 4, -4));
  EXPECT_FALSE(forward(0, 2, -3));
  EXPECT_FALSE(forward(0, -1, -1));
  EXPECT_TRUE(forward(0, 0, 0));
  // Mode 4 counts from the bottom right: two columns further.
  EXPECT_TRUE(forward(4, -3, 3));
  EXPECT_FALSE(forward(4, -4, 4));
  EXPECT_TRUE(forward(4, 5, -5));
  EXPECT_FALSE(forward(4, 6, -6));
  EXPECT_TRUE(backward(0, -6, 6));
  EXPECT_FALSE(backward(0, -7, 7));
  EXPECT_TRUE(backward(0, 4, -4));
  EXPECT_FALSE(backward(0, 5, -5));
  EXPECT_TRUE(backward(0, 0, 0));
  EXPECT_FALSE(backward(0, 0, -1));
  EXPECT_TRUE(backward(4, -4, 4));
  EXPECT_FALSE(backward(4, -5, 5));
  // Other modes do not look.
  for (const int64_t mode : {1, 2, 3, 5, 6}) {
    EXPECT_TRUE(forward(mode, -99, -99)) << mode;
    EXPECT_TRUE(backward(mode, -99, -99)) << mode;
  }
}

// Forward wants every row to see something; backward that any does.
TEST(CheckTokens, DifferBetweenForwardAndBackward) {
  const Training tall = Call({{5}, {3}}, 3, 0, 0);
  EXPECT_FALSE(CheckForwardTokens(tall).ok());
  EXPECT_TRUE(CheckBackwardTokens(tall).ok());
  // One query more than keys is one too many.
  EXPECT_FALSE(CheckForwardTokens(Call({{3, 4}, {3, 3}}, 3, 0, 0)).ok());
  EXPECT_TRUE(CheckForwardTokens(Call({{3, 3}, {3, 4}}, 3, 0, 0)).ok());
  const Training left = Call({{4}, {4}}, 0, 3, -1);
  EXPECT_FALSE(CheckForwardTokens(left).ok());
  EXPECT_TRUE(CheckBackwardTokens(left).ok());
  const Training diagonal = Call({{4}, {4}}, 0, 0, 0);
  EXPECT_TRUE(CheckForwardTokens(diagonal).ok());
  EXPECT_FALSE(CheckBackwardTokens(diagonal).ok());
  // Sequences without scores have nothing to see.
  const Training none = Call({{4, 0}, {0, 4}}, 0, -9, 9);
  EXPECT_TRUE(CheckForwardTokens(none).ok());
  EXPECT_TRUE(CheckBackwardTokens(none).ok());
  for (const Training& some :
       {Call({{0, 4, 4}, {4, 6, 0}}, 4, 3, -2), Call({{4, 4}, {6, 0}}, 7, 0, 9),
        Call({{4, 4}, {0, 6}}, 8, 0, -9)}) {
    EXPECT_TRUE(CheckForwardTokens(some).ok()) << some.sparse_mode;
    EXPECT_TRUE(CheckBackwardTokens(some).ok()) << some.sparse_mode;
  }
}

TensorSpec Grid(Training training, const acl::Tensor& mask,
                bool backward = false) {
  training.backward = backward;
  training.atten_mask = &mask;
  const auto grid = MaskGrid(training);
  EXPECT_TRUE(grid.ok()) << grid.status().message();
  return grid.ok() ? *grid : TensorSpec{};
}

TEST(MaskGrid, ReadsTwoDimensionsInTwoWays) {
  const Training call = Call({{3, 2}, {4, 5}}, 0, 9, 9);
  const TensorSpec local = Grid(call, Dense({3, 5}));
  EXPECT_EQ(local.placement, Placement::kStrided);
  EXPECT_EQ(local.At(1, 1, 2, 3), 2 * 5 + 3);
  const TensorSpec all = Grid(call, Dense({5, 9}));
  EXPECT_EQ(all.placement, Placement::kTensorScores);
  EXPECT_EQ(all.At(1, 1, 2, 3), 2 * 9 + 3);
}

TEST(MaskGrid, StoresFourDimensionsPaddedOrPacked) {
  const Training call = Call({{3, 2}, {4, 5}}, 1, 0, 0);
  for (const int64_t heads : {1, 2}) {
    const acl::Tensor mask = Dense({2, heads, 3, 5});
    const TensorSpec padded = Grid(call, mask);
    EXPECT_EQ(padded.placement, Placement::kStrided);
    EXPECT_EQ(padded.At(1, 1, 2, 3),
              (heads == 2 ? 2 * 15 + 15 : 15) + 2 * 5 + 3);
    const TensorSpec packed = Grid(call, mask, true);
    EXPECT_EQ(packed.placement, Placement::kBlocks);
    EXPECT_EQ(packed.dims[1], heads);
  }
  // One for all is padded always, and so is what has equal lengths.
  EXPECT_EQ(Grid(call, Dense({1, 1, 3, 5}), true).placement,
            Placement::kStrided);
  const Training equal = Call({{3, 3}, {5, 5}}, 1, 0, 0);
  EXPECT_EQ(Grid(equal, Dense({2, 1, 3, 5}), true).placement,
            Placement::kStrided);
  // Equal lengths are those of rows and those of columns.
  for (const Lengths& one_side : {Lengths{{3, 3}, {4, 5}}, {{2, 3}, {5, 5}}}) {
    EXPECT_EQ(
        Grid(Call(one_side, 1, 0, 0), Dense({2, 1, 3, 5}), true).placement,
        Placement::kBlocks);
  }
}

TEST(MaskGrid, OfPrefixesIsOnePerSequence) {
  Training call = EqualCall(3, 5, 5, 0, 0);
  EXPECT_EQ(Grid(call, Dense({2, 1, 3, 5})).At(1, 1, 2, 3), 15 + 2 * 5 + 3);
  const auto refuses = [&](const std::vector<int64_t>& dims) {
    const acl::Tensor mask = Dense(dims);
    call.atten_mask = &mask;
    return MaskGrid(call).status().code() == Code::kContradiction;
  };
  EXPECT_TRUE(refuses({3, 5}));
  EXPECT_TRUE(refuses({1, 1, 3, 5}));
  EXPECT_FALSE(refuses({2, 2, 3, 5}));
  call.batch = DenseBatch(1, 3, 5);
  EXPECT_FALSE(refuses({3, 5}));
  EXPECT_FALSE(refuses({1, 1, 3, 5}));
  // The rows of all sequences together mean nothing here.
  call = EqualCall(3, 5, 0, 9, 9);
  EXPECT_TRUE(refuses({6, 10}));
}

TEST(MaskGrid, CompressedMasksAreNotThere) {
  const Training call = Call({{3, 2}, {4, 5}}, 2, 0, 0);
  EXPECT_FALSE(Grid(call, Dense({2048, 2048})).present());
  const Training prefix = Call({{3}, {4}}, 6, 0, 0);
  EXPECT_FALSE(Grid(prefix, Dense({3072, 2048})).present());
}

// Strict mode compares what is compressed with its picture, so nothing else
// may count as that.
TEST(IsMaskCompressed, NeedsAModeWithAPictureAndScores) {
  const acl::Tensor mask = Dense({2048, 2048});
  for (const int64_t mode : {2, 3, 4, 6, 7, 8}) {
    Training training = Call({{3}, {4}}, mode, 9, 9);
    EXPECT_FALSE(IsMaskCompressed(training));
    training.atten_mask = &mask;
    EXPECT_TRUE(IsMaskCompressed(training));
    training.batch = BatchOf({{3, 0}, {0, 4}});
    EXPECT_FALSE(IsMaskCompressed(training));
  }
  for (const int64_t mode : {0, 1, 5}) {
    Training training = Call({{3}, {4}}, mode, 9, 9);
    training.atten_mask = &mask;
    EXPECT_FALSE(IsMaskCompressed(training));
  }
}

}  // namespace
}  // namespace flashacl::ops
