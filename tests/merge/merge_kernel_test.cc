// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows, on every instruction set.
#include "merge/merge_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/number.h"
#include "base/random.h"
#include "tests/cpu/targets.h"

namespace flashacl::merge {
namespace {

using testing::OnTarget;

class MergeKernel : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
};

cpu::ElementFormat Format(DType dtype, int64_t step) {
  cpu::ElementFormat format;
  format.dtype = dtype;
  format.step = step;
  format.element_bytes = SizeOf(dtype);
  return format;
}

struct Sums {
  alignas(64) float at[kBlockChannels];
};

// Each term is a product and a sum, which round by 2^-24 at most each.
TEST_P(MergeKernel, SumsAreThoseOfExactNumbers) {
  Random random(1);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    for (const int64_t channels : {1, 5, 8, 17, 64, 100, 511, 512}) {
      const int64_t step = random.Within(1, 2);
      const int count = static_cast<int>(random.Within(1, kMaxTerms));
      const cpu::ElementFormat format = Format(dtype, step);
      const int64_t bytes = channels * step * format.element_bytes;
      std::vector<std::vector<std::byte>> rows(static_cast<size_t>(count));
      std::vector<Term> terms;
      for (auto& row : rows) {
        row.resize(static_cast<size_t>(bytes));
        for (int64_t d = 0; d < channels; ++d) {
          WriteNumber(dtype, row.data() + d * step * format.element_bytes,
                      random.Fraction() - 0.5);
        }
        terms.push_back({row.data(), static_cast<float>(random.Fraction())});
      }
      Sums sums, before;
      for (float& sum : before.at) sum = static_cast<float>(random.Fraction());
      const bool adds = random.OneIn(2);
      sums = before;
      Kernels().sum({format, terms.data(), count, adds}, channels, sums.at);
      for (int64_t d = 0; d < channels; ++d) {
        double exact = adds ? double{before.at[d]} : 0;
        double size = std::fabs(exact);
        for (const Term& term : terms) {
          const double value =
              ReadNumber(dtype, term.row + d * step * format.element_bytes);
          exact += double{term.weight} * value;
          size += std::fabs(double{term.weight} * value);
        }
        EXPECT_NEAR(sums.at[d], exact, 2 * (count + 1) * size * 0x1p-24) << d;
      }
    }
  }
}

TEST_P(MergeKernel, ATermOfWeightOneIsItself) {
  for (const int64_t step : {1, 2}) {
    std::vector<float> row(200);
    for (size_t n = 0; n < row.size(); ++n) {
      row[n] = n % 3 == 0 ? -0.0f : static_cast<float>(n) * 0.37f;
    }
    const Term term{reinterpret_cast<const std::byte*>(row.data()), 1};
    Sums sums;
    Kernels().sum({Format(DType::kF32, step), &term, 1, false}, 99, sums.at);
    std::vector<float> out(99);
    Kernels().store(Format(DType::kF32, 1), sums.at, 99,
                    reinterpret_cast<std::byte*>(out.data()));
    for (size_t n = 0; n < out.size(); ++n) {
      EXPECT_EQ(out[n], row[n * static_cast<size_t>(step)]);
      EXPECT_EQ(std::signbit(out[n]),
                std::signbit(row[n * static_cast<size_t>(step)]));
    }
  }
}

// Four rows of some parts, of which some have no weight.
class PartRows {
 public:
  static constexpr int64_t kInner = 2, kRows = 4;

  PartRows(DType dtype, int64_t channels, int count, Random& random)
      : format_(Format(dtype, 1)), channels_(channels) {
    for (int part = 0; part < count; ++part) {
      auto& rows = rows_.emplace_back(static_cast<size_t>(bytes() * kRows));
      auto& weights = weights_.emplace_back(kRows);
      for (int64_t row = 0; row < kRows; ++row) {
        // Row 1 has no terms; of the others each part has some.
        const bool seen = row != 1 && !random.OneIn(3);
        if (seen) weights[row] = static_cast<float>(random.Fraction());
        for (int64_t d = 0; d < channels; ++d) {
          WriteNumber(dtype, rows.data() + row * bytes() + d * size(),
                      seen ? random.Fraction() - 0.5 : std::nan(""));
        }
      }
    }
  }

  int64_t bytes() const { return channels_ * size(); }

  std::vector<std::byte> Expected(int64_t row) const {
    std::vector<Term> terms;
    for (size_t part = 0; part < rows_.size(); ++part) {
      const float weight = weights_[part][static_cast<size_t>(row)];
      if (weight == 0) continue;
      terms.push_back({rows_[part].data() + row * bytes(), weight});
    }
    std::vector<std::byte> expected(static_cast<size_t>(bytes()));
    if (terms.empty()) return expected;
    for (int64_t d = 0; d < channels_; d += kBlockChannels) {
      const int64_t count = std::min(kBlockChannels, channels_ - d);
      Sums sums;
      Kernels().sum(
          {format_, terms.data(), static_cast<int>(terms.size()), false}, count,
          sums.at);
      Kernels().store(format_, sums.at, count, expected.data() + d * size());
      for (Term& term : terms) term.row += count * size();
    }
    return expected;
  }

  // Each row of a pair `step` bytes after the other.
  void Merge(std::byte* to, int64_t step, int64_t pair_step,
             bool streams) const {
    std::vector<RowsOfPart> parts;
    for (size_t part = 0; part < rows_.size(); ++part) {
      parts.push_back({rows_[part].data(), kInner * bytes(), bytes(),
                       weights_[part].data()});
    }
    Kernels().merge({.dtype = format_.dtype,
                     .channels = channels_,
                     .outer = kRows / kInner,
                     .inner = kInner,
                     .parts = parts.data(),
                     .count = static_cast<int>(parts.size()),
                     .to = to,
                     .to_outer_bytes = pair_step,
                     .to_inner_bytes = step,
                     .streams = streams});
    Kernels().flush();
  }

 private:
  int64_t size() const { return format_.element_bytes; }

  const cpu::ElementFormat format_;
  const int64_t channels_;
  std::vector<std::vector<std::byte>> rows_;
  std::vector<std::vector<float>> weights_;
};

struct alignas(64) Line {
  std::byte at[64];
};

// In one go or two, past the caches or not, over whole lines or not: the same
// bits, and nothing between the rows.
TEST_P(MergeKernel, RowsAreMergedInOneGo) {
  Random random(3);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    for (const int64_t channels : {1, 31, 32, 64, 100, 128, 576, 1055}) {
      const PartRows parts(
          dtype, channels,
          static_cast<int>(random.OneIn(3) ? random.Within(3, kMaxTerms)
                                           : random.Within(1, 3)),
          random);
      const int64_t bytes = parts.bytes();
      for (const bool streams : {false, true}) {
        for (const int64_t shift : {0, 4}) {
          const int64_t step = bytes / 64 * 64 + 64 + shift;
          const int64_t pair_step = 3 * step - shift;
          std::vector<Line> lines(static_cast<size_t>(6 * step / 64 + 1));
          std::memset(lines.data(), 7, lines.size() * sizeof(Line));
          std::byte* const to = lines[0].at + shift;
          parts.Merge(to, step, pair_step, streams);
          for (int64_t row = 0; row < PartRows::kRows; ++row) {
            std::byte* const at = to + row / PartRows::kInner * pair_step +
                                  row % PartRows::kInner * step;
            EXPECT_EQ(std::vector<std::byte>(at, at + bytes),
                      parts.Expected(row));
            EXPECT_EQ(at[bytes], std::byte{7});
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, MergeKernel,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::merge
