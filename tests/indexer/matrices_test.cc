// SPDX-License-Identifier: Apache-2.0
// Scores and gradients on matrix registers, on every instruction set; emulated
// where there are none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// First of what is Highway's.
#include "tests/cpu/targets.h"
// After it.
#include "cpu/pair_dots.h"
#include "indexer/selection_kernel.h"
#include "tests/cpu/pairs.h"
#include "tests/indexer/tensors.h"

namespace flashacl::indexer {
namespace {

using cpu::PairDots;

class IndexerMatrices : public ::testing::TestWithParam<int64_t> {
 protected:
  ~IndexerMatrices() override { cpu::SetPairDotsForTest({}); }

  void SetUp() override {
    if (SelectionKernelsHere().matrices == cpu::MatrixCode::kInstructions &&
        !cpu::HasMatrices()) {
      GTEST_SKIP() << "this processor has no matrix registers";
    }
    cpu::SetPairDotsForTest(PairDots::kMatrices);
  }

  const testing::OnTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Every, IndexerMatrices,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

// Scores of all keys that each row sees, by key.
class AllScores {
 public:
  AllScores(Tensors& tensors, int64_t row_count, int64_t key_count)
      : tensors_(tensors), rows_(row_count), keys_(key_count) {
    selection_.indices = tensors.NewLists(DType::kI32, keys_);
    selection_.values = tensors.NewLists(DType::kF32, keys_);
  }

  // 1e30 where there is no score.
  std::vector<float> By(PairDots dots) {
    cpu::SetPairDotsForTest(dots);
    const auto results = tensors_.Results(*MakeSelection(selection_), 2, 2);
    std::vector<float> scores(static_cast<size_t>(rows_ * keys_), 1e30f);
    for (int64_t n = 0; n < rows_ * keys_; ++n) {
      const auto key = Load<int32_t>(results[0].data() + n * 4);
      if (key < 0) continue;
      scores[static_cast<size_t>(n / keys_ * keys_ + key)] =
          Load<float>(results[1].data() + n * 4);
    }
    return scores;
  }

 private:
  Tensors& tensors_;
  const int64_t rows_, keys_;
  Selection selection_{.rows = tensors_.rows()};
};

bool AreSame(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// What any order of additions may differ by from another, of one score.
double MostApart(const Tensors& tensors, int64_t row, int64_t key,
                 int64_t heads, int64_t channels) {
  double size = 0;
  for (int64_t h = 0; h < heads; ++h) {
    double products = 0;
    for (int64_t c = 0; c < channels; ++c) {
      products += std::fabs(tensors.Half(0, (row * heads + h) * channels + c) *
                            tensors.Half(1, key * channels + c));
    }
    size += products * std::fabs(tensors.Half(2, row * heads + h));
  }
  return 2 * 0x1p-24 * static_cast<double>(channels + heads + 2) * size;
}

TEST_P(IndexerMatrices, GiveTheScoresOfFloats) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t rows = random.Within(1, 12), keys = random.Within(1, 150);
    const int64_t heads = random.Within(1, 70);
    const int64_t channels = 32 * random.Within(1, 4);
    const bool exact = random.OneIn(2);
    Tensors tensors(rows, keys, heads, channels);
    if (exact && random.OneIn(2)) {
      tensors.UsePages(random.Within(1, 40), random);
    }
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, seed + n, exact);
    AllScores scores(tensors, rows, keys);
    const auto floats = scores.By(PairDots::kNone);
    const auto matrices = scores.By(PairDots::kMatrices);
    for (int64_t n = 0; n < rows * keys; ++n) {
      const int64_t row = n / keys, key = n % keys;
      const auto at = static_cast<size_t>(n);
      ASSERT_NEAR(floats[at], matrices[at],
                  exact ? 0 : MostApart(tensors, row, key, heads, channels))
          << row << ", " << key;
    }
  }
}

// One head, whose products are not added to any other's. Keys and rows of the
// query without subnormal numbers are there, too.
TEST_P(IndexerMatrices, KeepSubnormals) {
  constexpr int64_t kRows = 5, kKeys = 70, kWide = 64;
  for (const size_t tiny : {0, 1}) {
    Tensors tensors(kRows, kKeys, 1, kWide);
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, n, true);
    for (int64_t n = 0; n < tensors.halves(tiny); ++n) {
      if (n / kWide % 3 == 1) continue;
      tensors.Put(tiny, n, testing::TinyNumber(n));
    }
    for (int64_t n = 0; n < tensors.halves(1 - tiny); ++n) {
      tensors.Put(1 - tiny, n, testing::LargeNumber(n) * 0x1p-4);
    }
    AllScores scores(tensors, kRows, kKeys);
    const auto floats = scores.By(PairDots::kNone);
    EXPECT_EQ(floats, scores.By(PairDots::kMatrices));
    EXPECT_TRUE(std::ranges::any_of(
        floats, [](float x) { return x != 0 && std::fabs(x) < 1e20f; }));
  }
}

TEST_P(IndexerMatrices, KeepWhatIsNotFinite) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t rows = random.Within(1, 9), keys = random.Within(1, 100);
    Tensors tensors(rows, keys, random.Within(1, 40), 32);
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, seed + n, true);
    for (size_t n = 0; n < 3; ++n) {
      const double infinity = std::numeric_limits<double>::infinity();
      const double special = random.OneIn(2)
                                 ? std::numeric_limits<double>::quiet_NaN()
                             : random.OneIn(2) ? infinity
                                               : -infinity;
      tensors.Put(n, random.Within(0, tensors.halves(n) - 1), special);
    }
    AllScores scores(tensors, rows, keys);
    const auto floats = scores.By(PairDots::kNone);
    const auto matrices = scores.By(PairDots::kMatrices);
    for (size_t n = 0; n < floats.size(); ++n) {
      ASSERT_TRUE(AreSame(floats[n], matrices[n])) << n;
    }
  }
}

// Where a key is infinite, a product with zeros is not a number; nor is one
// with what is no number, which stays.
TEST_P(IndexerMatrices, LanesWithoutAHeadGiveNothing) {
  for (const int64_t heads : {1, 3, 9, 17, 33}) {
    SCOPED_TRACE(heads);
    constexpr int64_t kKeys = 3;
    Tensors tensors(1, kKeys, heads, 32);
    for (size_t n = 0; n < 3; ++n) {
      for (int64_t at = 0; at < tensors.halves(n); ++at) tensors.Put(n, at, 1);
    }
    tensors.Put(1, 0, std::numeric_limits<double>::infinity());
    tensors.Put(1, 64, std::numeric_limits<double>::quiet_NaN());
    AllScores all(tensors, 1, kKeys);
    for (const PairDots dots : {PairDots::kNone, PairDots::kMatrices}) {
      const auto scores = all.By(dots);
      EXPECT_EQ(scores[0], std::numeric_limits<float>::infinity());
      EXPECT_EQ(scores[1], static_cast<float>(32 * heads));
      EXPECT_TRUE(std::isnan(scores[2]));
    }
  }
}

// Subnormal numbers here and there, and splits that cut steps elsewhere.
TEST_P(IndexerMatrices, ListTheSameForAnyWorkers) {
  for (const int64_t rows : {1, 9}) {
    Random random(static_cast<uint64_t>(rows));
    Tensors tensors(rows, 4500, 5, 32);
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, n + 1);
    for (int n = 0; n < 60; ++n) {
      tensors.Put(1, random.Within(0, tensors.halves(1) - 1), 0x1p-130);
    }
    Selection selection{.rows = tensors.rows()};
    selection.indices = tensors.NewLists(DType::kI32, 700);
    selection.values = tensors.NewLists(DType::kF32, 700);
    ExpectSameForAnyWorkers(tensors, *MakeSelection(selection), 2);
  }
}

// The gradients of some rows, which list any keys.
class Gradients {
 public:
  Gradients(Tensors& tensors, int64_t width)
      : tensors_(tensors),
        first_(tensors.arguments()),
        gradient_(tensors.NewGradient(width)) {}

  size_t lists() const { return first_; }
  size_t grad_scores() const { return first_ + 1; }
  const Gradient& gradient() const { return gradient_; }

  // Of the query, keys and weights.
  std::vector<std::vector<float>> By(PairDots dots) {
    cpu::SetPairDotsForTest(dots);
    std::vector<std::vector<float>> all;
    for (const auto& bytes : tensors_.Results(*MakeGradient(gradient_), 2, 3)) {
      std::vector<float>& one = all.emplace_back();
      for (size_t n = 0; n < bytes.size(); n += 4) {
        one.push_back(Load<float>(bytes.data() + n));
      }
    }
    return all;
  }

 private:
  Tensors& tensors_;
  const size_t first_;
  const Gradient gradient_;
};

// How far gradients by matrices may be from those by multiply-adds: of each sum
// the roundings of both, and 2^-17 of what is two terms. Where a product may
// have either sign, what hangs on it.
std::vector<std::vector<double>> MostApart(const Tensors& tensors,
                                           const Gradients& of, int64_t rows,
                                           int64_t keys, int64_t heads,
                                           int64_t channels, int64_t width) {
  std::vector<std::vector<double>> most = {
      std::vector<double>(static_cast<size_t>(rows * heads * channels)),
      std::vector<double>(static_cast<size_t>(keys * channels)),
      std::vector<double>(static_cast<size_t>(rows * heads))};
  const double unit =
      0x1p-23 * static_cast<double>(channels + rows * (heads + width));
  for (int64_t n = 0; n < rows * width; ++n) {
    const int64_t row = n / width, key = tensors.Index(of.lists(), n);
    const double ds = tensors.Half(of.grad_scores(), n);
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = row * heads + h;
      double dot = 0, size = 0;
      for (int64_t c = 0; c < channels; ++c) {
        const double product = tensors.Half(0, at * channels + c) *
                               tensors.Half(1, key * channels + c);
        dot += product;
        size += std::fabs(product);
      }
      most[2][static_cast<size_t>(at)] += unit * std::fabs(ds) * size;
      const double share = std::fabs(dot) < unit * size ? 1 : unit + 0x1p-17;
      const double g = share * std::fabs(ds * tensors.Half(2, at));
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t q = at * channels + c, k = key * channels + c;
        most[0][static_cast<size_t>(q)] += g * std::fabs(tensors.Half(1, k));
        most[1][static_cast<size_t>(k)] += g * std::fabs(tensors.Half(0, q));
      }
    }
  }
  return most;
}

TEST_P(IndexerMatrices, GiveTheGradientsOfFloats) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t rows = random.Within(1, 4), keys = random.Within(1, 150);
    const int64_t heads = random.Within(1, 70), width = random.Within(1, 250);
    const int64_t channels = 32 * random.Within(1, 3);
    const bool exact = seed % 2 == 0;
    Tensors tensors(rows, keys, heads, channels);
    Gradients gradients(tensors, width);
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, seed + n, exact);
    tensors.FillHalves(gradients.grad_scores(), seed, exact);
    const auto floats = gradients.By(PairDots::kNone);
    const auto matrices = gradients.By(PairDots::kMatrices);
    const auto most =
        MostApart(tensors, gradients, rows, keys, heads, channels, width);
    for (size_t t = 0; t < 3; ++t) {
      for (size_t n = 0; n < floats[t].size(); ++n) {
        ASSERT_NEAR(floats[t][n], matrices[t][n], exact ? 0 : most[t][n])
            << t << ", " << n;
      }
    }
  }
}

// What a term would lose or spoil is of floats: all that such a number meets,
// and so has their bits.
TEST_P(IndexerMatrices, LeaveToFloatsWhatTermsLose) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double not_a_number = std::numeric_limits<double>::quiet_NaN();
  // Of queries, keys, weights and gradients of scores: all are so. The square
  // of `two` has two terms, which are 2^14 apart.
  struct Case {
    double query, key, weight, grad_score;
  };
  constexpr double two = 1 + 0x1p-7;
  for (const Case& of :
       {Case{1, 1, 1, 1}, Case{1, 1, two, two}, Case{1, 0x1p-118, two, two},
        Case{0x1p-118, 1, two, two}, Case{1, 1, two * 0x1p-60, two * 0x1p-57},
        Case{1, 1, 1, 0x1p-120}, Case{1, 0x1p-130, 1, 1},
        Case{0x1p-130, 1, 1, 1}, Case{1, infinity, 1, 1},
        Case{infinity, 1, 1, 1}, Case{1, 1, infinity, 1},
        Case{1, 1, 1, not_a_number}, Case{1, 1, 0x1.FEp127, two}}) {
    SCOPED_TRACE(::testing::Message() << of.query << " " << of.key << " "
                                      << of.weight << " " << of.grad_score);
    // One head, and one product for each: no sum has an order.
    constexpr int64_t kWide = 32;
    Tensors tensors(1, 40, 1, kWide);
    Gradients gradients(tensors, 1);
    const double numbers[] = {of.query, of.key, of.weight};
    for (size_t n = 0; n < 3; ++n) {
      for (int64_t at = 0; at < tensors.halves(n); at += n == 2 ? 1 : kWide) {
        tensors.Put(n, at, numbers[n]);
      }
    }
    tensors.Put(gradients.grad_scores(), 0, of.grad_score);
    const auto floats = gradients.By(PairDots::kNone);
    const auto matrices = gradients.By(PairDots::kMatrices);
    for (size_t t = 0; t < 3; ++t) {
      for (size_t n = 0; n < floats[t].size(); ++n) {
        ASSERT_TRUE(AreSame(floats[t][n], matrices[t][n]))
            << t << ", " << n << ": " << floats[t][n] << ", " << matrices[t][n];
      }
    }
  }
}

// A head whose gradients are all so small, beside others.
TEST_P(IndexerMatrices, LeaveToFloatsWhatTermsOfAHeadLose) {
  constexpr int64_t kMany = 33, kWide = 32;
  for (const int64_t small : {0, 5, 17, 32}) {
    SCOPED_TRACE(small);
    Tensors tensors(1, 3, kMany, kWide);
    Gradients gradients(tensors, 1);
    for (size_t n = 0; n < 2; ++n) {
      for (int64_t at = 0; at < tensors.halves(n); at += kWide) {
        tensors.Put(n, at, 1);
      }
    }
    for (int64_t h = 0; h < kMany; ++h) {
      tensors.Put(2, h, h == small ? 0x1.02p-122 : 1);
    }
    tensors.Put(gradients.grad_scores(), 0, 0x1.FEp0);
    const auto floats = gradients.By(PairDots::kNone);
    EXPECT_EQ(floats, gradients.By(PairDots::kMatrices));
    EXPECT_EQ(floats[0][static_cast<size_t>(small * kWide)], 0x1.00FEp-121f);
  }
}

TEST_P(IndexerMatrices, DifferentiateTheSameForAnyWorkers) {
  Random random(1);
  Tensors tensors(9, 300, 40, 32);
  Gradients gradients(tensors, 200);
  for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, n + 1);
  tensors.FillHalves(gradients.grad_scores(), 5);
  for (int n = 0; n < 4; ++n) {
    tensors.Put(1, random.Within(0, tensors.halves(1) - 1), 0x1p-130);
  }
  ExpectSameForAnyWorkers(tensors, *MakeGradient(gradients.gradient()), 3);
}

}  // namespace
}  // namespace flashacl::indexer
