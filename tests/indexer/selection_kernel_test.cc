// SPDX-License-Identifier: Apache-2.0
// Lists of small integers, which are exact, on every instruction set.
#include "indexer/selection_kernel.h"

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

class SelectionKernel : public ::testing::TestWithParam<int64_t> {
 protected:
  const testing::OnTarget target_{GetParam()};
};

// Many scores are equal.
TEST_P(SelectionKernel, ListsAreThoseOfSorting) {
  for (const int64_t keys : {1, 7, 33, 700}) {
    constexpr int64_t kRows = 11, kWidth = 40;
    Tensors tensors(kRows, keys);
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, n + 1, true);
    Selection selection{.rows = tensors.rows()};
    selection.rows.causal = false;
    selection.indices = tensors.NewLists(DType::kI32, kWidth);
    tensors.Results(*MakeSelection(selection), 2, 1);
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<std::pair<double, int64_t>> best;
      for (int64_t key = 0; key < keys; ++key) {
        double score = 0;
        for (int64_t h = 0; h < kHeads; ++h) {
          score += tensors.Half(2, row * kHeads + h) *
                   std::max(tensors.Dot(row, h, key), 0.0);
        }
        best.emplace_back(-score, key);
      }
      std::ranges::sort(best);
      for (int64_t u = 0; u < kWidth; ++u) {
        ASSERT_EQ(tensors.Index(3, row * kWidth + u),
                  u < keys ? best[static_cast<size_t>(u)].second : -1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, SelectionKernel,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::indexer
