// SPDX-License-Identifier: Apache-2.0
// P and dS rounded to bf16 in pairs, and their products, on every instruction
// set against scalar loops. pair_dots_test.cc has the whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/range.h"
#include "tests/cpu/targets.h"
#include "tests/testing/rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/backward/rounded_test.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/backward/rounded-inl.h"

// Vector code as plain functions.
#ifndef FLASHACL_TESTS_CPU_ROUNDED_PIECES
#define FLASHACL_TESTS_CPU_ROUNDED_PIECES
namespace flashacl::cpu {
struct RoundedCall {
  const float* probs;
  const float* grad_scores;
  float* prob_row_pairs;
  float* grad_row_pairs;
  float* grad_key_pairs;
};
// What a panel turned out to be: RoundedFacts, for any instruction set.
struct FoundFacts {
  bool beyond, small;
};
// A product over the keys `keys` of the step, or over `rows` rows.
struct PairProduct {
  const float* floats;  // P or dS, [panel, key, lane]
  const float* pairs;   // of them
  const float* words;   // rows of pairs of rows or keys
  int64_t stride;
  Range keys;
  int64_t rows;
  float* sums;
};
struct RoundedPieces {
  int64_t width;  // lanes of a panel
  int64_t size;   // sums of a product
  FoundFacts (*round)(const RoundedCall&, int64_t count, bool odd, bool any);
  float (*to_bf16)(float);
  void (*pair_rows)(float* rows, int64_t stride, int64_t channels);
  void (*clear_lanes)(float*, int64_t keys, int64_t count);
  void (*query)(const PairProduct&, bool seen);
  void (*key)(const PairProduct&, bool seen);
};
}  // namespace flashacl::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

FoundFacts RoundOf(const RoundedCall& call, int64_t count, bool odd, bool any) {
  const RoundedPanel panel{call.probs, call.grad_scores, call.prob_row_pairs,
                           call.grad_row_pairs, call.grad_key_pairs};
  const RoundedFacts facts = any ? RoundPanel<true>(panel, count, odd)
                                 : RoundPanel<false>(panel, count, odd);
  return {facts.beyond, facts.small};
}

void QueryOf(const PairProduct& p, bool seen) {
  if (seen) {
    return GradQuerySeenPairs<kBig>(p.floats, {p.words, p.stride}, p.keys,
                                    p.sums);
  }
  const int64_t first = p.keys.first / 2;
  GradQueryPairs<kBig, OfPairs>(p.pairs, {p.words + first * p.stride, p.stride},
                                (p.keys.last + 1) / 2 - first, p.sums);
}

// Panels have kBig keys.
void KeyOf(const PairProduct& p, bool seen) {
  const std::vector<Range> all(static_cast<size_t>(p.rows / Width() + 1),
                               Range{0, kBig});
  if (seen) {
    return GradKeySeenPairs<kBig>(
        {p.floats, kBig * Width(), all.data(), p.rows}, 0, {p.words, p.stride},
        p.sums);
  }
  GradKeyPairs<kBig, OfPairs>({p.pairs, kBig * Lanes(), all.data(), p.rows}, 0,
                              {p.words, p.stride}, p.sums);
}

float ToBf16(float x) { return RoundedToBf16(x); }

RoundedPieces RoundedTable() {
  return {Width(), kBig, RoundOf, ToBf16, PairRows, ClearLanes, QueryOf, KeyOf};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {

FLASHACL_EXPORT(RoundedPieces, RoundedTable);

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }

float Upper(float word) { return FloatOf(BitsOf(word) & 0xFFFF0000u); }
float Lower(float word) { return FloatOf(BitsOf(word) << 16); }

// To nearest, halves away from 0, but no number becomes infinite.
float Nearest(float x) {
  if (std::isnan(x) || std::isinf(x)) return x;
  const float near = Upper(x);
  const float far = FloatOf(BitsOf(near) + 0x10000u);
  if (std::isinf(far)) return near;
  const double to_near = std::fabs(double{x} - double{near});
  return to_near < std::fabs(double{far} - double{x}) ? near : far;
}

void ExpectSame(float got, float want) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got));
  } else {
    EXPECT_EQ(BitsOf(got), BitsOf(want)) << got << " and " << want;
  }
}

// Floats that vectors may load, 64 bytes apart from anything else.
struct Floats {
  std::vector<float> memory;
  float* at;

  explicit Floats(int64_t count) : memory(static_cast<size_t>(count) + 32) {
    const size_t past = reinterpret_cast<uintptr_t>(memory.data()) / 4 % 16;
    at = memory.data() + (16 - past) % 16;
  }
  Floats(const Floats&) = delete;
};

class Rounded : public ::testing::TestWithParam<int64_t> {
 protected:
  const testing::OnTarget target_{GetParam()};
  const RoundedPieces pieces_ = FLASHACL_DISPATCH(RoundedTable);
  const int64_t width_ = pieces_.width;
  const int64_t lanes_ = pieces_.width / 2;
  Random random_{7};

  void Fill(const Floats& to, int64_t count) {
    for (int64_t n = 0; n < count; ++n) to.at[n] = random_.Bell();
  }

  // Numbers of any bits, NaNs among them.
  void FillBits(const Floats& to, int64_t count) {
    for (int64_t n = 0; n < count; ++n) {
      to.at[n] = FloatOf(static_cast<uint32_t>(random_.Bits()));
    }
  }

  // Rounds `count` keys; what it finds, and the words.
  struct Words {
    Floats prob_rows, grad_rows, grad_keys;
    FoundFacts facts{};

    explicit Words(int64_t keys, int64_t width)
        : prob_rows(keys * width),
          grad_rows(keys * width),
          grad_keys((keys + 2) * width) {}
  };
  void Round(const Floats& probs, const Floats& grads, int64_t count, bool odd,
             bool any, Words& words) {
    words.facts = pieces_.round({probs.at, grads.at, words.prob_rows.at,
                                 words.grad_rows.at, words.grad_keys.at},
                                count, odd, any);
  }

  void ExpectWords(const Floats& probs, const Floats& grads, int64_t count,
                   bool odd, const Words& words) {
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t n = 0; n < lanes_; ++n) {
        const int64_t first = j * width_ + n, second = first + lanes_;
        const float p = words.prob_rows.at[j * lanes_ + n];
        const float ds = words.grad_rows.at[j * lanes_ + n];
        ExpectSame(Upper(p), Nearest(probs.at[first]));
        ExpectSame(Lower(p), Nearest(probs.at[second]));
        ExpectSame(Upper(ds), Nearest(grads.at[first]));
        ExpectSame(Lower(ds), Nearest(grads.at[second]));
      }
    }
    const int64_t before = odd ? 1 : 0;
    const int64_t pairs = (count + before + 1) / 2;
    for (int64_t k = 0; k < 2 * pairs; ++k) {
      const int64_t j = k - before;
      for (int64_t n = 0; n < width_; ++n) {
        const float word = words.grad_keys.at[k / 2 * width_ + n];
        const bool there = j >= 0 && j < count;
        ExpectSame(k % 2 == 0 ? Upper(word) : Lower(word),
                   there ? Nearest(grads.at[j * width_ + n]) : 0.0f);
      }
    }
  }
};

TEST_P(Rounded, PanelsArePairsOfRowsAndOfKeys) {
  for (int64_t count = 1; count <= 9; ++count) {
    for (const bool odd : {false, true}) {
      for (const bool any : {false, true}) {
        const Floats probs(count * width_), grads(count * width_);
        Fill(probs, count * width_);
        Fill(grads, count * width_);
        probs.at[0] = FloatOf(0x3F808000);  // a half
        grads.at[1] = FloatOf(0xBF818000);
        Words words(count, width_);
        Round(probs, grads, count, odd, any, words);
        EXPECT_FALSE(words.facts.beyond);
        ExpectWords(probs, grads, count, odd, words);
      }
    }
  }
}

TEST_P(Rounded, AnyNumbersAreRoundedWhereSomeAreBeyondBf16) {
  for (int round = 0; round < 50; ++round) {
    const Floats probs(4 * width_), grads(4 * width_);
    FillBits(probs, 4 * width_);
    FillBits(grads, 4 * width_);
    // Whose upper halves are those of infinities.
    probs.at[0] = FloatOf(0x7F800001);
    grads.at[lanes_] = FloatOf(0xFF80FFFF);
    Words words(4, width_);
    Round(probs, grads, 4, false, true, words);
    ExpectWords(probs, grads, 4, false, words);
    for (int64_t n = 0; n < 4 * width_; ++n) {
      ExpectSame(pieces_.to_bf16(grads.at[n]), Nearest(grads.at[n]));
    }
  }
  for (const uint32_t bits : {0x7FFFFFFFu, 0xFFFFFFFFu, 0x7F800001u}) {
    EXPECT_TRUE(std::isnan(pieces_.to_bf16(FloatOf(bits))));
  }
}

TEST_P(Rounded, WhatIsBeyondOrSmallIsFound) {
  const float beyond[] = {kInfinity, -kInfinity, kMost, FloatOf(0x7F7F8000),
                          FloatOf(0xFFFFFFFF)};
  for (int64_t n = 0; n < 3 * width_; ++n) {
    const Floats probs(3 * width_), grads(3 * width_);
    const auto found = [&] {
      Words words(3, width_);
      Round(probs, grads, 3, false, false, words);
      return words.facts;
    };
    Fill(probs, 3 * width_);
    Fill(grads, 3 * width_);
    for (const Floats* const to : {&probs, &grads}) {
      const float was = to->at[n];
      for (const float x : beyond) {
        to->at[n] = x;
        EXPECT_TRUE(found().beyond) << x;
      }
      to->at[n] = FloatOf(0xFF7F7FFF);
      EXPECT_FALSE(found().beyond);
      to->at[n] = was;
    }
    for (const Floats* const to : {&probs, &grads}) {
      const float was = to->at[n];
      to->at[n] = -0x1p-127f;
      EXPECT_TRUE(found().small);
      to->at[n] = 0x1.FFp-127f;  // 2^-126
      EXPECT_EQ(found().small, false);
      to->at[n] = was;
    }
    // A row of nothing else.
    const int64_t lane = n % width_;
    for (int64_t j = 0; j < 3; ++j) grads.at[j * width_ + lane] = 0;
    EXPECT_FALSE(found().small);
    grads.at[n] = -0x1p-81f;
    EXPECT_TRUE(found().small);
    grads.at[n] = -0x1p-80f;
    EXPECT_FALSE(found().small);
  }
}

TEST_P(Rounded, LanesWithoutARowBecomeZero) {
  for (int64_t count = 1; count < width_; ++count) {
    const Floats values(2 * width_);
    FillBits(values, 2 * width_);
    const std::vector<float> before(values.at, values.at + 2 * width_);
    pieces_.clear_lanes(values.at, 2, count);
    for (int64_t n = 0; n < 2 * width_; ++n) {
      ExpectSame(values.at[n],
                 n % width_ < count ? before[static_cast<size_t>(n)] : 0.0f);
    }
  }
}

TEST_P(Rounded, RowsArePairedWhereTheyAre) {
  const int64_t stride = 3 * width_;
  const Floats rows(width_ * stride);
  for (int64_t n = 0; n < width_ * stride; ++n) {
    rows.at[n] = Upper(random_.Bell());
  }
  const std::vector<float> before(rows.at, rows.at + width_ * stride);
  pieces_.pair_rows(rows.at, stride, width_ + 1);
  for (int64_t r = 0; r < lanes_; ++r) {
    for (int64_t c = 0; c <= width_; ++c) {
      const auto at = static_cast<size_t>(r * stride + c);
      ExpectSame(Upper(rows.at[at]), before[at]);
      ExpectSame(Lower(rows.at[at]),
                 before[at + static_cast<size_t>(lanes_ * stride)]);
    }
  }
}

// Whether products skip what is marked or not, they have the same bits, and
// those of sums in order.
TEST_P(Rounded, ProductsOfKeysAreSumsInTheirOrder) {
  const int64_t stride = width_ + 16;
  for (const auto& keys :
       {Range{0, 6}, Range{1, 6}, Range{3, 8}, Range{4, 5}}) {
    const Floats floats(8 * width_), none(8 * width_), words(5 * stride);
    Fill(floats, 8 * width_);
    for (int64_t n = 0; n < 5 * stride; ++n) {
      words.at[n] =
          FloatOf(BitsOf(Upper(random_.Bell())) | BitsOf(random_.Bell()) >> 16);
    }
    const Floats pairs(8 * width_ + 64);
    Words unused(8, width_);
    pieces_.round({none.at, floats.at + keys.first * width_,
                   unused.prob_rows.at, unused.grad_rows.at, pairs.at},
                  keys.size(), keys.first % 2 != 0, false);
    const Floats sums(12 * stride), seen(12 * stride);
    pieces_.query({nullptr, pairs.at, words.at, stride, keys, 0, sums.at},
                  false);
    pieces_.query({floats.at, nullptr, words.at, stride, keys, 0, seen.at},
                  true);
    for (int64_t r = 0; r < pieces_.size && r < width_; ++r) {
      for (int64_t c = 0; c < width_; ++c) {
        double sum = 0, size = 0;
        for (int64_t j = keys.first; j < keys.last; ++j) {
          const float word = words.at[j / 2 * stride + c];
          const double term = double{Nearest(floats.at[j * width_ + r])} *
                              double{j % 2 == 0 ? Upper(word) : Lower(word)};
          sum += term;
          size += std::fabs(term);
        }
        EXPECT_NEAR(sums.at[r * stride + c], sum,
                    testing::SumError(keys.size(), size));
        ExpectSame(seen.at[r * stride + c], sums.at[r * stride + c]);
      }
    }
  }
}

TEST_P(Rounded, ProductsOfRowsAreSumsOfAsManyAsThereAre) {
  const int64_t stride = width_ + 16, size = pieces_.size;
  for (int64_t rows = 1; rows <= 2 * width_; ++rows) {
    const Floats floats(2 * size * width_), none(size * width_);
    const Floats values(2 * width_ * stride);
    Fill(floats, 2 * size * width_);
    for (int64_t n = 0; n < rows * stride; ++n) {
      values.at[n] = Upper(random_.Bell());
    }
    const std::vector<float> before(values.at, values.at + rows * stride);
    const Floats pairs(size * width_ + 64);
    for (int64_t panel = 0; panel < 2; ++panel) {
      float* const own = floats.at + panel * size * width_;
      const int64_t left =
          std::clamp<int64_t>(rows - panel * width_, 0, width_);
      if (left < width_) pieces_.clear_lanes(own, size, left);
      Words unused(size, width_);
      pieces_.round({own, none.at, pairs.at + panel * size * lanes_,
                     unused.grad_rows.at, unused.grad_keys.at},
                    size, false, false);
      pieces_.pair_rows(values.at + panel * width_ * stride, stride, width_);
    }
    // Lanes without a row may hold anything.
    for (int64_t n = 0; n < 2 * size * width_; ++n) {
      const int64_t row = n / (size * width_) * width_ + n % width_;
      if (row >= rows) floats.at[n] = FloatOf(0x7FC00000);
    }
    const Floats sums(12 * stride), seen(12 * stride);
    pieces_.key({nullptr, pairs.at, values.at, stride, {}, rows, sums.at},
                false);
    pieces_.key({floats.at, nullptr, values.at, stride, {}, rows, seen.at},
                true);
    for (int64_t j = 0; j < size; ++j) {
      for (int64_t c = 0; c < width_; ++c) {
        double sum = 0, terms = 0;
        for (int64_t r = 0; r < rows; ++r) {
          const float p =
              floats.at[(r / width_ * size + j) * width_ + r % width_];
          const double term =
              double{Nearest(p)} *
              double{before[static_cast<size_t>(r * stride + c)]};
          sum += term;
          terms += std::fabs(term);
        }
        EXPECT_NEAR(sums.at[j * stride + c], sum,
                    testing::SumError(rows, terms));
        ExpectSame(seen.at[j * stride + c], sums.at[j * stride + c]);
      }
    }
  }
}

// A P or dS of -0 says that nobody looks; one of 0, that somebody does.
TEST_P(Rounded, SeenProductsLeaveOutWhatIsMarked) {
  for (const bool marked : {false, true}) {
    const Floats floats(12 * width_), words(width_ * width_);
    for (int64_t n = 0; n < 12 * width_; ++n) {
      floats.at[n] = marked ? -0.0f : 0.0f;
    }
    for (int64_t c = 0; c < width_; ++c) words.at[c] = FloatOf(0x7F807F80);
    for (const auto product : {pieces_.query, pieces_.key}) {
      const Floats sums(12 * width_);
      product({floats.at, nullptr, words.at, width_, {0, 2}, 1, sums.at}, true);
      EXPECT_EQ(std::isnan(sums.at[0]), !marked);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Rounded,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
#endif  // FLASHACL_ONCE
