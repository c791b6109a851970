// SPDX-License-Identifier: Apache-2.0
// A selection as the runtime has it: its line, and the same bits however many
// workers there are and in whatever order they come.
#include <gtest/gtest.h>

#include "indexer/indexer.h"
#include "tests/indexer/tensors.h"

namespace flashacl::indexer {
namespace {

// One row, whose keys are split, and many rows.
TEST(Selection, IsTheSameForAnyWorkers) {
  for (const int64_t rows : {1, 9, 300}) {
    Tensors tensors(rows, rows == 300 ? 700 : 9000);
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, n + 1);
    Selection selection{.rows = tensors.rows()};
    selection.indices = tensors.NewLists(DType::kI32, 100);
    selection.values = tensors.NewLists(DType::kBf16, 100);
    const auto computation = MakeSelection(selection);
    EXPECT_EQ(computation->name(), "indexer/selection");
    ExpectSameForAnyWorkers(tensors, *computation, 2);
  }
}

TEST(Selection, SaysWhatItComputes) {
  Tensors tensors(4, 50);
  Selection selection{.rows = tensors.rows()};
  selection.indices = tensors.NewLists(DType::kI32, 8);
  EXPECT_EQ(MakeSelection(selection)->Describe(),
            "bf16: 3 heads of 20, 8 of at most 50 keys, causal");
}

}  // namespace
}  // namespace flashacl::indexer
