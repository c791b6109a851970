// SPDX-License-Identifier: Apache-2.0
// What the backward tiles are built of, one by one and on every instruction
// set, against scalar loops. right_test.cc has the whole.
#include "cpu/backward/backward_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "tests/cpu/targets.h"
#include "tests/testing/rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/backward/backward_kernel_test.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/backward/backward-inl.h"

// Vector code as plain functions.
#ifndef FLASHACL_TESTS_CPU_GRAD_PIECES
#define FLASHACL_TESTS_CPU_GRAD_PIECES
namespace flashacl::cpu {
// Operands of a product: rows of one panel of channels.
struct GradProduct {
  const float* scalars;
  const float* rows;
  int64_t stride;
  int64_t depth;
  float* sums;
};
struct GradPieces {
  int64_t width;  // channels of a panel
  int64_t rows;   // of the products
  bool fused;     // whether products that are summed are not rounded
  // scalars [row of rows][sum], sums += over rows.
  void (*query_block)(const GradProduct& product, bool skip_masked);
  // scalars [sum][row of rows]: one panel of probs.
  void (*key_block)(const GradProduct& product, bool skip_masked);
  void (*store)(const ElementFormat&, const float*, int64_t count, std::byte*);
  // Of four rows with four others, `stride` floats apart.
  void (*dots)(float* a, float* b, int64_t stride, int64_t count, float* dots);
  void (*softmax)(float* scores, float* grads, int64_t count, float* facts);
  // sums [sum, lane] = scalars times `depth` rows of a panel, where these are
  // `columns` [row of panel][sum], or rows [sum][row of panel]; `prefetches`
  // lines meanwhile.
  void (*panel_sums)(const GradProduct& product, bool columns, bool prefetches);
};
}  // namespace flashacl::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

void DotsOf(float* a, float* b, int64_t stride, int64_t count, float* dots) {
  DotsOfFour({a, stride}, {b, stride}, count, dots);
}

void QueryBlockOf(const GradProduct& p, bool skip_masked) {
  const auto block =
      skip_masked ? GradQueryBlock<kBig, true> : GradQueryBlock<kBig, false>;
  block(p.scalars, {p.rows, p.stride}, p.depth, p.sums);
}

void KeyBlockOf(const GradProduct& p, bool skip_masked) {
  const Range all{0, kBig};
  const auto block =
      skip_masked ? GradKeyBlock<kBig, true> : GradKeyBlock<kBig, false>;
  block({p.scalars, 0, &all, p.depth}, 0, {p.rows, p.stride}, p.sums);
}

void ProbsOf(float* scores, float* grads, int64_t count, float* facts) {
  ProbsAndDs(scores, grads, count,
             {facts, facts + Width(), facts + 2 * Width()},
             facts + 3 * Width());
}

template <class Lines>
void PanelSums(const GradProduct& p, bool columns, Lines lines) {
  Sums<kBig> sums;
  sums.Clear();
  if (columns) {
    AddColumns(p.scalars, p.rows, p.depth, sums, lines);
  } else {
    AddRows(p.scalars, p.depth, p.rows, p.depth, sums, lines);
  }
  sums.Store(p.sums);
}

void PanelSumsOf(const GradProduct& p, bool columns, bool prefetches) {
  if (!prefetches) return PanelSums(p, columns, NoLines());
  const auto* const line = reinterpret_cast<const std::byte*>(p.rows);
  PanelSums(p, columns, LineShare(&line, 1, p.depth));
}

GradPieces GradPieceTable() {
  return {Width(),      kBig,       HWY_NATIVE_FMA != 0,
          QueryBlockOf, KeyBlockOf, StoreRow,
          DotsOf,       ProbsOf,    PanelSumsOf};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {

FLASHACL_EXPORT(GradPieces, GradPieceTable);

namespace {

using testing::ExpError;
using testing::kRoundoff;
using testing::SumError;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Floats that vectors may load, 64 bytes apart from anything else.
struct Floats {
  std::vector<float> memory;
  float* at;

  explicit Floats(int64_t count) : memory(static_cast<size_t>(count) + 16) {
    const size_t past = reinterpret_cast<uintptr_t>(memory.data()) / 4 % 16;
    at = memory.data() + (16 - past) % 16;
  }
  Floats(int64_t count, Random& random) : Floats(count) {
    for (int64_t n = 0; n < count; ++n) at[n] = random.Bell();
  }
  Floats(const Floats&) = delete;
};

class GradPiece : public ::testing::TestWithParam<int64_t> {
 protected:
  const testing::OnTarget target_{GetParam()};
  const GradPieces pieces_ = FLASHACL_DISPATCH(GradPieceTable);
  Random random_{7};

  // scalars(k, r) times row k, summed over k, by definition.
  template <typename At>
  void ExpectProduct(const GradProduct& p, const Floats& before, At scalar) {
    for (int64_t r = 0; r < pieces_.rows; ++r) {
      for (int64_t c = 0; c < pieces_.width; ++c) {
        double sum = double{before.at[r * p.stride + c]};
        double size = std::fabs(sum);
        for (int64_t k = 0; k < p.depth; ++k) {
          const float x = scalar(k, r);
          if (x == 0 && std::signbit(x)) continue;
          const double term = double{x} * double{p.rows[k * p.stride + c]};
          sum += term;
          size += std::fabs(term);
        }
        EXPECT_NEAR(p.sums[r * p.stride + c], sum, SumError(p.depth, size));
      }
    }
  }
};

// Scores and outputs, whose loops prefetch or do not.
TEST_P(GradPiece, SumsAreTheSameWhilePrefetching) {
  for (int64_t depth = 8; depth <= 41; ++depth) {
    for (const bool columns : {false, true}) {
      const Floats scalars(depth * pieces_.rows, random_);
      const Floats panel(depth * pieces_.width, random_);
      const int64_t count = pieces_.rows * pieces_.width;
      Floats plain(count), prefetching(count);
      const auto product = [&](const Floats& sums) {
        return GradProduct{scalars.at, panel.at, 0, depth, sums.at};
      };
      pieces_.panel_sums(product(plain), columns, false);
      pieces_.panel_sums(product(prefetching), columns, true);
      for (int64_t n = 0; n < count; ++n) {
        ASSERT_EQ(plain.at[n], prefetching.at[n]) << depth << columns;
      }
      for (int64_t r = 0; r < pieces_.rows; ++r) {
        const int64_t lane = random_.Within(0, pieces_.width - 1);
        double sum = 0, size = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const int64_t at = columns ? k * pieces_.rows + r : r * depth + k;
          const double term = double{scalars.at[at]} *
                              double{panel.at[k * pieces_.width + lane]};
          sum += term;
          size += std::fabs(term);
        }
        EXPECT_NEAR(plain.at[r * pieces_.width + lane], sum,
                    SumError(depth, size));
      }
    }
  }
}

TEST_P(GradPiece, QueryBlocksAreProducts) {
  const int64_t stride = 2 * pieces_.width + 16;
  for (const int64_t depth : {0, 1, 2, 13, 96}) {
    for (const bool skip_masked : {false, true}) {
      const Floats scalars(depth * pieces_.width + 64, random_);
      const Floats rows(depth * stride + 64, random_);
      const Floats before(12 * stride, random_);
      Floats sums(12 * stride);
      std::memcpy(sums.at, before.at,
                  sizeof(float) * static_cast<size_t>(12 * stride));
      const GradProduct p{scalars.at, rows.at, stride, depth, sums.at};
      pieces_.query_block(p, skip_masked);
      ExpectProduct(p, before, [&](int64_t k, int64_t r) {
        return scalars.at[k * pieces_.width + r];
      });
    }
  }
}

TEST_P(GradPiece, KeyBlocksAreProductsOfAsManyRowsAsThereAre) {
  const int64_t stride = pieces_.width + 16;
  for (int64_t depth = 0; depth <= pieces_.width; ++depth) {
    for (const bool skip_masked : {false, true}) {
      const Floats scalars(12 * pieces_.width, random_);
      Floats rows(pieces_.width * stride + 64, random_);
      // After the last row anything may be.
      for (int64_t n = depth * stride; n < pieces_.width * stride; ++n) {
        rows.at[n] = kInfinity;
      }
      const Floats before(12 * stride, random_);
      Floats sums(12 * stride);
      std::memcpy(sums.at, before.at,
                  sizeof(float) * static_cast<size_t>(12 * stride));
      const GradProduct p{scalars.at, rows.at, stride, depth, sums.at};
      pieces_.key_block(p, skip_masked);
      ExpectProduct(p, before, [&](int64_t k, int64_t r) {
        return scalars.at[r * pieces_.width + k];
      });
    }
  }
}

// A prob of -0 says that nobody looks; one of 0, that somebody does.
TEST_P(GradPiece, SkipMaskedBlocksLeaveOutWhatIsMarked) {
  const int64_t stride = pieces_.width;
  for (const bool marked : {false, true}) {
    Floats scalars(12 * pieces_.width);
    Floats rows(pieces_.width * stride, random_);
    for (int64_t c = 0; c < stride; ++c) rows.at[stride + c] = kInfinity;
    for (int64_t n = 0; n < 12 * pieces_.width; ++n) {
      scalars.at[n] = marked ? -0.0f : 0.0f;
    }
    for (const auto block : {pieces_.query_block, pieces_.key_block}) {
      Floats sums(12 * stride);
      block({scalars.at, rows.at, stride, 2, sums.at}, true);
      EXPECT_EQ(std::isnan(sums.at[0]), !marked);
    }
  }
}

TEST_P(GradPiece, RowsAreStoredAsElementsRoundedOnce) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    for (const int64_t step : {1, 3}) {
      for (int64_t count = 0; count < 40; ++count) {
        Floats from(64, random_);
        from.at[3] = kInfinity;
        from.at[5] = std::numeric_limits<float>::quiet_NaN();
        ElementFormat format;
        format.dtype = dtype;
        format.step = step;
        format.element_bytes = SizeOf(dtype);
        std::vector<std::byte> to(40 * 3 * 4 + 8, std::byte{0x55});
        pieces_.store(format, from.at, count, to.data());
        const auto bytes = static_cast<size_t>(format.element_bytes);
        for (int64_t n = 0; n < 40 * 3; ++n) {
          const std::byte* const at =
              to.data() + static_cast<size_t>(n) * bytes;
          const int64_t d = n / step;
          if (n % step != 0 || d >= count) {
            EXPECT_EQ(at[0], std::byte{0x55});
            continue;
          }
          uint32_t found = 0;
          std::memcpy(&found, at, bytes);
          uint32_t expected = 0;
          std::memcpy(&expected, from.at + d, 4);
          if (dtype == DType::kF16) expected = F16FromF32(from.at[d]);
          if (dtype == DType::kBf16) expected = Bf16FromF32(from.at[d]);
          if (!std::isnan(from.at[d])) {
            EXPECT_EQ(found, expected);
          }
        }
      }
    }
  }
}

TEST_P(GradPiece, DotsAreSumsOfProductsInOrder) {
  constexpr int64_t kStride = 104;
  for (int64_t count = 0; count <= 100; ++count) {
    const Floats a(4 * kStride, random_);
    const Floats b(4 * kStride, random_);
    float dots[4], ordered[4] = {};
    for (int64_t r = 0; r < 4; ++r) {
      std::fill_n(a.at + r * kStride + count, 4, 0.0f);
      std::fill_n(b.at + r * kStride + count, 4, 0.0f);
    }
    pieces_.dots(a.at, b.at, kStride, count, dots);
    for (int64_t r = 0; r < 4; ++r) {
      double sum = 0, size = 0;
      for (int64_t d = 0; d < count; ++d) {
        const float x = a.at[r * kStride + d], y = b.at[r * kStride + d];
        sum += double{x} * double{y};
        size += std::fabs(double{x} * double{y});
        ordered[r] =
            pieces_.fused ? std::fma(x, y, ordered[r]) : ordered[r] + x * y;
      }
      EXPECT_NEAR(dots[r], sum, SumError(count, size));
      EXPECT_EQ(dots[r], ordered[r]);
    }
  }
}

TEST_P(GradPiece, ProbsAndDsAreTheFormulas) {
  const int64_t width = pieces_.width;
  for (const int64_t count : {1, 7, 8, 9, 40}) {
    const Floats scores(count * width, random_);
    const Floats grads(count * width, random_);
    Floats facts(4 * width, random_);
    for (int64_t r = 0; r < width; ++r) {
      facts.at[r] = 3;
      facts.at[width + r] = 0.25f;
    }
    std::vector<float> sum_p_dp(facts.at + 3 * width, facts.at + 4 * width);
    Floats probs(count * width);
    Floats ds(count * width);
    std::copy_n(scores.at, count * width, probs.at);
    std::copy_n(grads.at, count * width, ds.at);
    pieces_.softmax(probs.at, ds.at, count, facts.at);
    for (int64_t r = 0; r < width; ++r) {
      double sum = double{sum_p_dp[static_cast<size_t>(r)]};
      double size = std::fabs(sum);
      double of_probs = 0;
      for (int64_t j = 0; j < count; ++j) {
        const int64_t n = j * width + r;
        const double t = double{scores.at[n]} - 3;
        const double p = std::exp(t) / 4;
        const double grad = double{grads.at[n]};
        const double step = grad - double{facts.at[2 * width + r]};
        // An exp and a product; of ds, a difference and a product more.
        const double of_p = ExpError(t) + kRoundoff;
        EXPECT_NEAR(probs.at[n], p, of_p * p);
        EXPECT_NEAR(ds.at[n], p * step,
                    (of_p + 2 * kRoundoff) * p * std::fabs(step));
        sum += p * grad;
        size += std::fabs(p * grad);
        of_probs += of_p * std::fabs(p * grad);
      }
      EXPECT_NEAR(facts.at[3 * width + r], sum,
                  SumError(count, size) + of_probs);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, GradPiece,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
#endif  // FLASHACL_ONCE
