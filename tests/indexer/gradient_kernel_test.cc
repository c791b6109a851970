// SPDX-License-Identifier: Apache-2.0
// Gradients of small integers, which are exact, on every instruction set.
#include "indexer/gradient_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

// First of what is Highway's.
#include "tests/cpu/targets.h"
// After it.
#include "tests/indexer/tensors.h"

namespace flashacl::indexer {
namespace {

class GradientKernel : public ::testing::TestWithParam<int64_t> {
 protected:
  const testing::OnTarget target_{GetParam()};
};

TEST_P(GradientKernel, AreThoseOfTheFormula) {
  constexpr int64_t kRows = 5, kKeys = 30, kWidth = 130;
  Tensors tensors(kRows, kKeys);
  for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, n + 1, true);
  Gradient gradient{.rows = tensors.rows()};
  gradient.rows.causal = false;
  gradient.indices = tensors.NewLists(DType::kI32, kWidth);
  gradient.grad_score = tensors.NewLists(DType::kBf16, kWidth);
  gradient.grad_query =
      tensors.New(DType::kBf16, {1, kRows, kHeads, kChannels});
  gradient.grad_key = tensors.New(DType::kBf16, {1, kKeys, 1, kChannels});
  gradient.grad_weights = tensors.NewLists(DType::kBf16, kHeads);
  tensors.FillLists(3, 4);
  tensors.FillHalves(4, 5, true);
  tensors.Results(*MakeGradient(gradient), 2, 3);
  std::vector<double> dq(kRows * kHeads * kChannels), dk(kKeys * kChannels),
      dw(kRows * kHeads);
  for (int64_t n = 0; n < kRows * kWidth; ++n) {
    const int64_t row = n / kWidth;
    const int64_t key = tensors.Index(3, n);
    const double ds = tensors.Half(4, n);
    for (int64_t h = 0; h < kHeads; ++h) {
      const int64_t at = row * kHeads + h;
      const double dot = tensors.Dot(row, h, key);
      if (dot <= 0) continue;
      dw[static_cast<size_t>(at)] += ds * dot;
      const double factor = ds * tensors.Half(2, at);
      for (int64_t d = 0; d < kChannels; ++d) {
        const int64_t q = at * kChannels + d, k = key * kChannels + d;
        dq[static_cast<size_t>(q)] += factor * tensors.Half(1, k);
        dk[static_cast<size_t>(k)] += factor * tensors.Half(0, q);
      }
    }
  }
  const auto expect = [&](size_t argument, const std::vector<double>& sums) {
    for (size_t n = 0; n < sums.size(); ++n) {
      ASSERT_EQ(tensors.Half(argument, static_cast<int64_t>(n)),
                static_cast<double>(F32FromBf16(Bf16FromF64(sums[n]))))
          << n;
    }
  };
  expect(5, dq);
  expect(6, dk);
  expect(7, dw);
}

INSTANTIATE_TEST_SUITE_P(Every, GradientKernel,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::indexer
