// SPDX-License-Identifier: Apache-2.0
// Who sees whom and what is added to a score, in the specification's examples.
#include "reference/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "problem/problem_spec.h"
#include "tests/testing/shuffled_workers.h"
#include "tests/testing/small_case.h"

namespace flashacl {
namespace {

using reference::KeyValues;
using reference::Operands;
using reference::Row;

// The keys of one sequence, ready to be asked about.
class Loaded {
 public:
  explicit Loaded(const SmallCase& example, int64_t sequence = 0)
      : operands(example.problem(), example.bindings()),
        keys(example.problem(), layout_),
        sequence_(sequence) {
    workspace_.resize(static_cast<size_t>(layout_.bytes()));
    keys.Attach(workspace_.data());
    ShuffledWorkers workers(1);
    keys.Load(operands, sequence, 0, workers);
  }

  std::vector<int64_t> Columns(int64_t i, int64_t head = 0) const {
    const int64_t most = reference::MostVisible(operands.problem);
    std::vector<int64_t> columns(static_cast<size_t>(most));
    columns.resize(static_cast<size_t>(reference::VisibleColumns(
        operands, Row{sequence_, 0, head, i}, keys, columns)));
    return columns;
  }

  double ScoreOf(int64_t i, int64_t j, int64_t head = 0) const {
    const int64_t column[] = {j};
    double score[1];
    const std::vector<double> query(
        static_cast<size_t>(operands.problem.qk_dim), 0.0);
    reference::Scores(operands, Row{sequence_, 0, head, i}, keys, query, column,
                      score);
    return score[0];
  }

  WorkspaceLayout layout_;
  Operands operands;
  KeyValues keys;

 private:
  std::vector<std::byte> workspace_;
  int64_t sequence_;
};

std::string Picture(const ProblemSpec& problem_spec) {
  const SmallCase example(Build(problem_spec));
  const Loaded loaded(example);
  std::string picture;
  for (int64_t i = 0; i < problem_spec.rows[0]; ++i) {
    std::string row(static_cast<size_t>(problem_spec.columns[0]), '.');
    for (const int64_t j : loaded.Columns(i)) row[static_cast<size_t>(j)] = '1';
    picture += (i == 0 ? "" : " / ") + row;
  }
  return picture;
}

std::string Picture(int64_t rows, int64_t columns, const MaskRule& rule) {
  ProblemSpec problem_spec;
  problem_spec.rows = {rows};
  problem_spec.columns = {columns};
  problem_spec.rules = {rule};
  return Picture(problem_spec);
}

MaskRule CausalWithPrefix(int64_t prefix) {
  MaskRule rule = Causal();
  rule.band.prefix = prefix;
  return rule;
}

TEST(Visible, PicturesOfTheSpecification) {
  const int64_t open = Band::kOpen;
  EXPECT_EQ(Picture(4, 6, TopLeftBand(-1, 2)),
            "111... / 1111.. / .1111. / ..1111");
  EXPECT_EQ(Picture(3, 5, CausalTopLeft()), "1.... / 11... / 111..");
  EXPECT_EQ(Picture(3, 5, Causal()), "111.. / 1111. / 11111");
  EXPECT_EQ(Picture(5, 3, Causal()), "... / ... / 1.. / 11. / 111");
  EXPECT_EQ(Picture(4, 6, Window(1, 0)), ".11... / ..11.. / ...11. / ....11");
  EXPECT_EQ(Picture(4, 6, Window(2, -1)), "11.... / .11... / ..11.. / ...11.");
  EXPECT_EQ(Picture(4, 4, CausalWithPrefix(2)), "11.. / 11.. / 111. / 1111");
  EXPECT_EQ(Picture(3, 5, CausalWithPrefix(4)), "1111. / 1111. / 11111");
  EXPECT_EQ(Picture(5, 3, CausalWithPrefix(1)), "1.. / 1.. / 1.. / 11. / 111");
  EXPECT_EQ(Picture(2, 6, Window(open, -2)), "111... / 1111..");
  EXPECT_EQ(Picture(3, 4, Window(open, 1)), "111. / 1111 / 1111");
  EXPECT_EQ(Picture(2, 3, TopLeftBand(1, 2)), ".11 / ..1");
}

TEST(Visible, TopKListsEndAtTheFirstNegativeAndMayRepeat) {
  ProblemSpec problem_spec;
  problem_spec.rows = {3};
  problem_spec.columns = {7};
  problem_spec.rules = {Causal()};  // row i sees columns 0 .. i + 4
  problem_spec.selection = KvSource::Selection::kTopK;
  problem_spec.top_k = 4;
  problem_spec.gather_rows = 2;
  SmallCase example(Build(problem_spec));
  example.Set(Slot::kTopK, {3, 0, -1, 1,    // 6 and 7 are not seen
                            2, 2, 1e9, 0,   // twice, nowhere, 0 and 1
                            3, 9, -5, 0});  // 7 does not exist
  const Loaded loaded(example);
  EXPECT_EQ(loaded.Columns(0), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(loaded.Columns(1), (std::vector<int64_t>{4, 5, 4, 5, 0, 1}));
  EXPECT_EQ(loaded.Columns(2), (std::vector<int64_t>{6}));
}

TEST(Visible, MaskTensorsHideWhereTheyAreNotZero) {
  // Two sequences, 1 x 2 and 2 x 1, in one mask over packed rows and keys.
  ProblemSpec problem_spec;
  problem_spec.rows = {1, 2};
  problem_spec.columns = {2, 1};
  AttentionProblem problem = Build(problem_spec);
  problem[Slot::kMask] = {.dtype = DType::kU8,
                          .placement = Placement::kTensorScores,
                          .dims = {1, 1, 3, 3},
                          .strides = {0, 0, 3, 1}};
  SmallCase example(problem);
  example.Set(Slot::kMask, {0, 1, 9,    //
                            9, 9, 255,  //
                            9, 9, 0});
  EXPECT_EQ(Loaded(example, 0).Columns(0), (std::vector<int64_t>{0}));
  EXPECT_EQ(Loaded(example, 1).Columns(0), (std::vector<int64_t>{}));
  EXPECT_EQ(Loaded(example, 1).Columns(1), (std::vector<int64_t>{0}));
}

ProblemSpec AlibiSpec(Score::Bias bias) {
  ProblemSpec problem_spec;
  problem_spec.rows = {4, 4};
  problem_spec.columns = {4, 4};
  problem_spec.score.bias = bias;
  problem_spec.bias = {.sequence = false};
  return problem_spec;
}

TEST(Scores, AlibiOfTheSpecification) {
  ProblemSpec problem_spec = AlibiSpec(Score::Bias::kAlibi);
  const auto rows = [&](int64_t sequence, int64_t i) {
    SmallCase example(Build(problem_spec));
    example.Set(Slot::kBias, {0.5});
    const Loaded loaded(example, sequence);
    std::vector<double> scores;
    for (int64_t j = 0; j < 4; ++j) scores.push_back(loaded.ScoreOf(i, j));
    return scores;
  };
  const auto expect = [](const std::vector<double>& found,
                         const std::vector<double>& expected) {
    for (size_t n = 0; n < 4; ++n) EXPECT_NEAR(found[n], expected[n], 1e-4);
  };
  expect(rows(0, 0), {0, -0.5, -1, -1.5});
  problem_spec.score.key_start = 1;
  problem_spec.score.query_start = 3;
  expect(rows(0, 0), {-1, -0.5, 0, -0.5});
  expect(rows(0, 3), {-2.5, -2, -1.5, -1});
  expect(rows(1, 3), {-2.5, -2, -1.5, -1});
  problem_spec.score.bias = Score::Bias::kAlibiSqrt;
  expect(rows(0, 0), {-0.7071, -0.5, 0, -0.5});
  expect(rows(0, 3), {-1.1180, -1, -0.8660, -0.7071});
  problem_spec.score.starts_only_first = true;
  expect(rows(0, 3), {-1.1180, -1, -0.8660, -0.7071});
  expect(rows(1, 0), {0, -0.5, -0.7071, -0.8660});
}

// The last 1024 of 1536 rows are stored; a bias that differs on every diagonal
// comes back for every score, as do the examples' places.
TEST(Scores, CompressedBiasOfTheSpecification) {
  constexpr int64_t kSide = 1536;
  constexpr int64_t kMissing = 512;
  ProblemSpec problem_spec;
  problem_spec.rows = problem_spec.columns = {1200, kSide};
  problem_spec.rules = {Causal()};
  problem_spec.score.bias = Score::Bias::kAfterScale;
  problem_spec.bias = {.sequence = false};
  problem_spec.diagonal_rows = 1024;
  SmallCase example(Build(problem_spec));
  ASSERT_EQ(example.count(Slot::kBias), 1024 * kSide);
  const auto bias = [](int64_t distance) {
    return static_cast<double>(distance) * 0.25;
  };
  for (int64_t r = 0; r < 1024; ++r) {
    for (int64_t c = 0; c < kSide; ++c) {
      example.Put(Slot::kBias, r * kSide + c, bias(r + kMissing - c));
    }
  }
  for (const int64_t sequence : {0, 1}) {
    const Loaded loaded(example, sequence);
    for (const auto& [i, j] :
         {std::pair{0, 0}, std::pair{100, 40}, std::pair{511, 511},
          std::pair{512, 0}, std::pair{1199, 0}, std::pair{1199, 1199}}) {
      EXPECT_EQ(loaded.ScoreOf(i, j), bias(i - j)) << i << ", " << j;
    }
  }
  const GridPlane plane =
      Operands(example.problem(), example.bindings()).bias.Plane(0, 0);
  EXPECT_EQ(plane.At(512, 0), 0);
  EXPECT_EQ(plane.At(1535, 1535), 1023 * kSide + 1535);
  EXPECT_EQ(plane.At(0, 0), 512);
  EXPECT_EQ(plane.At(1199, 0), 687 * kSide);
}

// Bits run over heads, rows and columns of one sequence, then of the next,
// without padding: lengths 2 x 3 and 1 x 2, two heads, 16 bits.
TEST(Scores, DropoutBitsArePackedLowBitFirst) {
  ProblemSpec problem_spec;
  problem_spec.heads = problem_spec.kv_heads = 2;
  problem_spec.rows = {2, 1};
  problem_spec.columns = {3, 2};
  problem_spec.keep = true;
  problem_spec.score.keep_probability = 0.25f;
  for (int64_t bit = 0; bit < 16; ++bit) {
    SmallCase example(Build(problem_spec));
    example.Set(Slot::kKeep, {bit < 8 ? std::exp2(bit) : 0.0,
                              bit < 8 ? 0.0 : std::exp2(bit - 8)});
    const Operands operands(example.problem(), example.bindings());
    int64_t at = 0;
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t head = 0; head < 2; ++head) {
        for (int64_t i = 0; i < problem_spec.rows[static_cast<size_t>(b)];
             ++i) {
          for (int64_t j = 0; j < problem_spec.columns[static_cast<size_t>(b)];
               ++j, ++at) {
            EXPECT_EQ(
                reference::Kept(operands, operands.keep.Plane(b, head), i, j),
                at == bit ? 4 : 0);
          }
        }
      }
    }
  }
}

TEST(Sums, DotAndAddTakeAnyLength) {
  for (size_t count = 0; count < 20; ++count) {
    std::vector<double> a(count), b(count), sum(count, 1);
    double expected = 0;
    for (size_t n = 0; n < count; ++n) {
      a[n] = static_cast<double>(n) + 1;
      b[n] = static_cast<double>(n * n) - 3;
      expected += a[n] * b[n];
    }
    EXPECT_EQ(reference::Dot(a, b), expected);
    reference::Add(2, a, sum);
    for (size_t n = 0; n < count; ++n) EXPECT_EQ(sum[n], 1 + 2 * a[n]);
  }
}

}  // namespace
}  // namespace flashacl
