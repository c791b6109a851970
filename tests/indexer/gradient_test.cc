// SPDX-License-Identifier: Apache-2.0
// A gradient as the runtime has it: its line, and the same bits however many
// workers there are and in whatever order they come.
#include <gtest/gtest.h>

#include "indexer/indexer.h"
#include "tests/indexer/tensors.h"

namespace flashacl::indexer {
namespace {

// With lists so long that a batch has fewer rows than there are.
TEST(Gradient, IsTheSameForAnyWorkers) {
  for (const int64_t width : {50, 9000}) {
    const int64_t rows = width == 50 ? 200 : 70;
    Tensors tensors(rows, 500);
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, n + 1);
    Gradient gradient{.rows = tensors.rows()};
    gradient.rows.causal = false;
    gradient.rows.workers = width == 50 ? kWorkers : 2;
    gradient.indices = tensors.NewLists(DType::kI32, width);
    gradient.grad_score = tensors.NewLists(DType::kBf16, width);
    gradient.grad_query =
        tensors.New(DType::kBf16, {1, rows, kHeads, kChannels});
    gradient.grad_key = tensors.New(DType::kBf16, {1, 500, 1, kChannels});
    gradient.grad_weights = tensors.NewLists(DType::kBf16, kHeads);
    tensors.FillLists(3, 4);
    tensors.FillHalves(4, 5);
    const auto computation = MakeGradient(gradient);
    EXPECT_EQ(computation->name(), "indexer/gradient");
    ExpectSameForAnyWorkers(tensors, *computation, 3);
  }
}

TEST(Gradient, SaysWhatItComputes) {
  Tensors tensors(4, 50);
  Gradient gradient{.rows = tensors.rows()};
  gradient.indices = tensors.NewLists(DType::kI32, 8);
  gradient.grad_score = tensors.NewLists(DType::kBf16, 8);
  gradient.grad_query = tensors.New(DType::kBf16, {1, 4, kHeads, kChannels});
  gradient.grad_key = tensors.New(DType::kBf16, {1, 50, 1, kChannels});
  gradient.grad_weights = tensors.NewLists(DType::kBf16, kHeads);
  EXPECT_EQ(MakeGradient(gradient)->Describe(),
            "bf16: 3 heads of 20, 8 listed keys, causal");
}

}  // namespace
}  // namespace flashacl::indexer
