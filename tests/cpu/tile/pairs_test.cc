// SPDX-License-Identifier: Apache-2.0
// Sums of pairs are those of the manuals, to the bit: of two multiply-adds, and
// of the instruction where this processor has it, emulated elsewhere. The
// instruction's errors, and that rows are summed as their products are.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"
#include "cpu/pair_dots.h"
#include "tests/cpu/targets.h"
#include "tests/testing/rounding.h"

#ifndef FLASHACL_TESTS_PAIR_CALLS
#define FLASHACL_TESTS_PAIR_CALLS
namespace flashacl::cpu {
inline constexpr int64_t kMostWords = 100;

struct PairBlock {
  bool small, columns;
  int64_t depth;  // words
};

struct PairCalls {
  // sums[n] += the products of x[n], y[n], for as many as a vector has lanes.
  void (*multiply_adds)(const float* x, const float* y, float* sums);
  void (*at_once)(const float* x, const float* y, float* sums);
  // The same of one word with all lanes.
  void (*same)(float x, const float* y, float* sums);
  // Of rows of words, `depth` of them, and a panel: [row][lane of panel].
  void (*rows)(const float* rows, int64_t stride, const float* panel,
               int64_t depth, float* sums);
  // The same added to sums, of as many rows as a large or a small block has, or
  // of columns: [word][row].
  void (*block)(const PairBlock& block, const float* words, const float* panel,
                float* sums);
  // Of four rows of floats with four others.
  void (*dots)(float* a, float* b, int64_t stride, int64_t count, float* dots);
  int64_t lanes;
  int64_t rows_at_once, few_rows_at_once;
  int64_t chain;  // words whose sum is one chain; 0: all
  bool has_instruction;
  bool fuses;  // products that are no floats of their own may meet sums
};
}  // namespace flashacl::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/tile/pairs_test.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/tile/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

template <class Product>
void AddOf(const float* x, const float* y, float* sums) {
  hn::StoreU(
      Product::Add(hn::LoadU(kF, x), hn::LoadU(kF, y), hn::LoadU(kF, sums)), kF,
      sums);
}

void AddSameOf(float x, const float* y, float* sums) {
  using Product = OfPairsAtOnce;
  hn::StoreU(
      Product::Add(Product::Every(x), hn::LoadU(kF, y), hn::LoadU(kF, sums)),
      kF, sums);
}

// Of up to kMostWords words.
void AddRowsOf(const float* rows, int64_t stride, const float* panel,
               int64_t depth, float* to) {
  HWY_ALIGN float words[kMostWords * Width()];
  HWY_ALIGN float results[kBig * Width()];
  std::copy_n(panel, depth * Width(), words);
  Sums<kBig> sums;
  sums.Clear();
  AddRows<OfPairsAtOnce>(rows, stride, words, depth, sums);
  sums.Store(results);
  std::copy_n(results, kBig * Width(), to);
}

template <int kRows>
void AddBlockOf(const PairBlock& block, const float* words, const float* panel,
                float* sums) {
  HWY_ALIGN float aligned[kMostWords * Width()];
  std::copy_n(panel, block.depth * Width(), aligned);
  Sums<kRows> sum;
  HWY_ALIGN float results[kRows * Width()];
  std::copy_n(sums, kRows * Width(), results);
  sum.Load(results);
  if (block.columns) {
    AddColumns<OfPairsAtOnce>(words, aligned, block.depth, sum);
  } else {
    AddRows<OfPairsAtOnce>(words, block.depth, aligned, block.depth, sum);
  }
  sum.Store(results);
  std::copy_n(results, kRows * Width(), sums);
}

void AddAnyBlock(const PairBlock& block, const float* words, const float* panel,
                 float* sums) {
  const auto add = block.small ? AddBlockOf<kSmall> : AddBlockOf<kBig>;
  add(block, words, panel, sums);
}

void RowDots(float* a, float* b, int64_t stride, int64_t count, float* dots) {
  DotsOfFourAs(PairDots::kInstruction)({a, stride}, {b, stride}, count, dots);
}

PairCalls PairTable() {
  return {AddOf<OfPairs>,
          AddOf<OfPairsAtOnce>,
          AddSameOf,
          AddRowsOf,
          AddAnyBlock,
          RowDots,
          Lanes(),
          kBig,
          kSmall,
          OfPairsAtOnce::kChain,
          FLASHACL_HAS_PAIR_DOTS != 0,
          HWY_NATIVE_FMA != 0};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {
FLASHACL_EXPORT(PairCalls, PairTable);
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

class PairsOn : public ::testing::TestWithParam<int64_t> {
 protected:
  // Of the instruction, or what is in its place.
  bool CanRun() const {
    return !calls_.has_instruction || HasPairInstruction();
  }
  size_t lanes() const { return static_cast<size_t>(calls_.lanes); }

  const testing::OnTarget target_{GetParam()};
  const PairCalls calls_ = FLASHACL_DISPATCH(PairTable);
};

INSTANTIATE_TEST_SUITE_P(All, PairsOn,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

float Flush(float x) { return std::fabs(x) < 0x1p-126f ? 0 : x; }

float Half(float word, bool upper) {
  const auto bits = std::bit_cast<uint32_t>(word);
  return std::bit_cast<float>(upper ? bits & 0xFFFF0000u : bits << 16);
}

float MultiplyAdds(float x, float y, float sum) {
  sum = std::fma(Half(x, true), Half(y, true), sum);
  return std::fma(Half(x, false), Half(y, false), sum);
}

// As x86's manual says.
float UpperFirst(float x, float y, float sum) {
  sum = Flush(std::fma(Flush(Half(x, true)), Flush(Half(y, true)), Flush(sum)));
  return Flush(
      std::fma(Flush(Half(x, false)), Flush(Half(y, false)), Flush(sum)));
}

// As ARM's says. A sum that is no float becomes that of its two neighbours
// whose last bit is 1; beyond the greatest float it is infinite, below the
// least that is not subnormal 0.
float SumToOdd(float a, float b) {
  const double sum = double{a} + double{b};
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  if (std::fabs(sum) >= 0x1p128) return std::copysign(kInfinite, sum);
  const double of_a = sum - double{b}, of_b = sum - of_a;
  const double rest = (double{a} - of_a) + (double{b} - of_b);
  float below = static_cast<float>(sum);
  if (double{below} == sum && rest == 0) return Flush(below);
  if (double{below} > sum || (double{below} == sum && rest < 0)) {
    below = std::nextafter(below, -kInfinite);
  }
  const bool odd = (std::bit_cast<uint32_t>(below) & 1) != 0;
  return Flush(odd ? below : std::nextafter(below, kInfinite));
}

float ProductsFirst(float x, float y, float sum) {
  const auto product = [&](bool upper) {
    return Flush(Flush(Half(x, upper)) * Flush(Half(y, upper)));
  };
  return SumToOdd(Flush(sum), SumToOdd(product(false), product(true)));
}

float AtOnce(float x, float y, float sum) {
  return kInstructionSumsAsFloats ? UpperFirst(x, y, sum)
                                  : ProductsFirst(x, y, sum);
}

// Numbers of bf16 whose exponents are near each other, or of any bits.
uint32_t AnyHalf(Random& random, int64_t kind) {
  if (kind == 0) return static_cast<uint32_t>(random.Bits() & 0xFFFF);
  const auto exponent = static_cast<uint32_t>(
      kind == 1   ? random.Within(120, 130)
      : kind == 2 ? random.Within(55, 75)      // products near the subnormal
                  : random.Within(180, 192));  // and near the greatest float
  const auto rest = static_cast<uint32_t>(random.Bits() & 0x807F);
  return rest | exponent << 7;
}

std::vector<float> AnyWords(size_t count, Random& random, int64_t kind) {
  std::vector<float> words(count);
  for (float& word : words) {
    word = std::bit_cast<float>(AnyHalf(random, kind) | AnyHalf(random, kind)
                                                            << 16);
  }
  return words;
}

void ExpectSame(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t n = 0; n < a.size(); ++n) {
    if (std::isnan(a[n]) && std::isnan(b[n])) continue;
    ASSERT_EQ(a[n], b[n]) << n << ": " << std::bit_cast<uint32_t>(a[n])
                          << " and " << std::bit_cast<uint32_t>(b[n]);
  }
}

TEST_P(PairsOn, SumAsTheManualsSay) {
  Random random(1);
  for (int64_t round = 0; round < 40000; ++round) {
    const int64_t kind = calls_.fuses ? round % 4 : 1;
    const std::vector<float> x = AnyWords(lanes(), random, kind);
    const std::vector<float> y = AnyWords(lanes(), random, kind);
    std::vector<float> sums = AnyWords(lanes(), random, kind);
    // Some are of the size of a product.
    if (round % 3 == 0) {
      for (size_t n = 0; n < lanes(); ++n) {
        sums[n] = -Half(x[n], true) * Half(y[n], true);
      }
    }
    std::vector<float> expected(lanes()), run = sums;
    const auto expect = [&](auto add) {
      for (size_t n = 0; n < lanes(); ++n) expected[n] = add(n);
      ExpectSame(expected, run);
    };
    calls_.multiply_adds(x.data(), y.data(), run.data());
    expect([&](size_t n) { return MultiplyAdds(x[n], y[n], sums[n]); });
    if (!CanRun()) continue;
    run = sums;
    calls_.at_once(x.data(), y.data(), run.data());
    expect([&](size_t n) { return AtOnce(x[n], y[n], sums[n]); });
    run = sums;
    calls_.same(x[0], y.data(), run.data());
    expect([&](size_t n) { return AtOnce(x[0], y[n], sums[n]); });
  }
}

// Scores by the instruction err no more than those of floats may, and of 64
// channels and more not by much more on average: chains are short where it does
// not round to nearest.
TEST_P(PairsOn, RowsErrAsFloatsDo) {
  if (!CanRun()) GTEST_SKIP() << "this processor has no such instruction";
  const int64_t width = 2 * calls_.lanes;
  for (const int64_t depth : {int64_t{1}, int64_t{3}, int64_t{8}, int64_t{17},
                              int64_t{32}, int64_t{64}, kMostWords}) {
    Random random(static_cast<uint64_t>(depth));
    double squares = 0, of_floats = 0;
    for (int64_t round = 0; round < 30; ++round) {
      const auto words = [&](int64_t count) {
        return AnyWords(static_cast<size_t>(count), random, 1);
      };
      const std::vector<float> rows = words(calls_.rows_at_once * depth);
      const std::vector<float> panel = words(depth * width);
      std::vector<float> sums(static_cast<size_t>(calls_.rows_at_once * width));
      calls_.rows(rows.data(), depth, panel.data(), depth, sums.data());
      for (int64_t n = 0; n < std::ssize(sums); ++n) {
        double exact = 0, size = 0;
        float chain = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const float x = rows[static_cast<size_t>(n / width * depth + k)];
          const float y = panel[static_cast<size_t>(k * width + n % width)];
          for (const bool upper : {true, false}) {
            const double product =
                double{Half(x, upper)} * double{Half(y, upper)};
            exact += product;
            size += std::fabs(product);
          }
          chain = MultiplyAdds(x, y, chain);
        }
        const double error = double{sums[static_cast<size_t>(n)]} - exact;
        ASSERT_LE(std::fabs(error), testing::SumError(2 * depth, size));
        squares += error * error;
        of_floats += (double{chain} - exact) * (double{chain} - exact);
      }
    }
    if (depth < 32) continue;
    EXPECT_LE(std::sqrt(squares), testing::kMaxRms * std::sqrt(of_floats))
        << depth << " words: " << std::sqrt(squares / of_floats);
  }
}

// Whatever instructions have blocks of sums: of small and large numbers,
// subnormal and infinite ones and NaN.
TEST_P(PairsOn, BlocksHaveTheBitsOfOneWordAfterTheOther) {
  if (!CanRun()) GTEST_SKIP() << "this processor has no such instruction";
  const int64_t width = 2 * calls_.lanes;
  Random random(11);
  for (int64_t round = 0; round < 400; ++round) {
    const PairBlock block{.small = random.OneIn(2),
                          .columns = random.OneIn(2),
                          .depth = random.Within(1, 40)};
    const int64_t rows =
        block.small ? calls_.few_rows_at_once : calls_.rows_at_once;
    const int kind = static_cast<int>(random.Within(0, 2));
    const auto words = [&](int64_t count, int of) {
      return AnyWords(static_cast<size_t>(count), random, of);
    };
    const std::vector<float> x = words(rows * block.depth, kind);
    const std::vector<float> panel = words(block.depth * width, kind);
    std::vector<float> sums(static_cast<size_t>(rows * width));
    for (float& sum : sums) sum = random.Bell();
    std::vector<float> expected = sums;
    calls_.block(block, x.data(), panel.data(), sums.data());
    // Of scores, short chains are sums of their own.
    const bool apart = !block.columns && calls_.chain != 0;
    for (int64_t n = 0; n < rows * 2; ++n) {
      float* const to = expected.data() + n * calls_.lanes;
      std::vector<float> chain(lanes(), 0.0f);
      for (int64_t k = 0; k < block.depth; ++k) {
        const int64_t at =
            block.columns ? k * rows + n / 2 : n / 2 * block.depth + k;
        const std::vector<float> same(lanes(), x[static_cast<size_t>(at)]);
        calls_.at_once(same.data(),
                       panel.data() + k * width + n % 2 * calls_.lanes,
                       apart ? chain.data() : to);
        if (!apart) continue;
        if (k + 1 < block.depth && (k + 1) % calls_.chain != 0) continue;
        for (size_t lane = 0; lane < lanes(); ++lane) to[lane] += chain[lane];
        std::ranges::fill(chain, 0.0f);
      }
    }
    for (size_t n = 0; n < sums.size(); ++n) {
      if (std::isnan(expected[n]) && std::isnan(sums[n])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(sums[n]),
                std::bit_cast<uint32_t>(expected[n]))
          << n << " of " << rows << " rows, " << block.depth << " words"
          << (block.columns ? ", columns" : "");
    }
  }
}

// Of numbers of bf16, or of floats: then only near.
TEST_P(PairsOn, DotsOfRowsCancelProducts) {
  if (!CanRun()) GTEST_SKIP() << "this processor has no such instruction";
  const int64_t width = 2 * calls_.lanes;
  Random random(3);
  for (int64_t round = 0; round < 300; ++round) {
    const int64_t count = 2 * random.Within(1, 50), stride = 104;
    std::vector<float> a(4 * stride), b(4 * stride);
    for (int64_t n = 0; n < 4 * stride; ++n) {
      if (n % stride >= count) continue;
      const auto at = static_cast<size_t>(n);
      a[at] = Half(AnyWords(1, random, 1)[0], true);
      b[at] = Half(AnyWords(1, random, 1)[0], true);
    }
    const bool exact = round % 4 != 0;
    if (!exact) b[0] += b[0] * 0x1p-12f;
    std::vector<float> rows(static_cast<size_t>(calls_.rows_at_once * count));
    std::vector<float> panel(static_cast<size_t>(count / 2 * width));
    // The first channel is the upper half.
    const auto word = [&](const std::vector<float>& of, int64_t r, int64_t k) {
      const auto at = static_cast<size_t>(r * stride + 2 * k);
      return std::bit_cast<float>(
          (std::bit_cast<uint32_t>(of[at]) & 0xFFFF0000u) |
          std::bit_cast<uint32_t>(of[at + 1]) >> 16);
    };
    for (int64_t r = 0; r < 4; ++r) {
      for (int64_t k = 0; k < count / 2; ++k) {
        rows[static_cast<size_t>(r * count / 2 + k)] = word(a, r, k);
        panel[static_cast<size_t>(k * width + r)] = word(b, r, k);
      }
    }
    std::vector<float> sums(static_cast<size_t>(calls_.rows_at_once * width));
    calls_.rows(rows.data(), count / 2, panel.data(), count / 2, sums.data());
    float dots[4];
    calls_.dots(a.data(), b.data(), stride, count, dots);
    for (int64_t r = 0; r < 4; ++r) {
      const float sum = sums[static_cast<size_t>(r * width + r)];
      if (exact || r > 0) {
        ASSERT_EQ(dots[r], sum) << r;
        continue;
      }
      double truth = 0, size = 0;
      for (int64_t d = 0; d < count; ++d) {
        const auto at = static_cast<size_t>(d);
        truth += double{a[at]} * double{b[at]};
        size += std::fabs(double{a[at]} * double{b[at]});
      }
      ASSERT_LE(std::fabs(double{dots[0]} - truth),
                testing::SumError(count, size));
    }
  }
}

}  // namespace
}  // namespace flashacl::cpu
#endif
