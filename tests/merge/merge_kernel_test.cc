// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows, on every instruction set.
#include "merge/merge_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// In one go or two, past the caches or not, over whole lines or not: the same
// bits, and nothing after the row.
TEST_P(MergeKernel, RowsAreMergedInOneGo) {
  Random random(3);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    for (const int64_t channels : {1, 31, 32, 64, 100, 128, 576, 1055}) {
      const cpu::ElementFormat format = Format(dtype, 1);
      const int64_t bytes = channels * format.element_bytes;
      std::vector<std::vector<std::byte>> rows(3);
      std::vector<Term> terms;
      for (auto& row : rows) {
        row.resize(static_cast<size_t>(bytes));
        for (int64_t d = 0; d < channels; ++d) {
          WriteNumber(dtype, row.data() + d * format.element_bytes,
                      random.Fraction() - 0.5);
        }
        terms.push_back({row.data(), static_cast<float>(random.Fraction())});
      }
      std::vector<std::byte> expected(static_cast<size_t>(bytes));
      for (int64_t d = 0; d < channels; d += kBlockChannels) {
        const int64_t count = std::min(kBlockChannels, channels - d);
        std::vector<Term> block = terms;
        for (Term& term : block) term.row += d * format.element_bytes;
        Sums sums;
        Kernels().sum({format, block.data(), 3, false}, count, sums.at);
        Kernels().store(format, sums.at, count,
                        expected.data() + d * format.element_bytes);
      }
      for (const bool streams : {false, true}) {
        for (const int64_t shift : {0, 4}) {
          struct alignas(64) Line {
            std::byte at[64];
          };
          std::vector<Line> lines(static_cast<size_t>(bytes / 64 + 2));
          std::byte* const to = lines[0].at + shift;
          to[bytes] = std::byte{7};
          Kernels().merge({format, terms.data(), 3, false}, channels, streams,
                          to);
          Kernels().flush();
          EXPECT_EQ(std::vector<std::byte>(to, to + bytes), expected);
          EXPECT_EQ(to[bytes], std::byte{7});
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
