// SPDX-License-Identifier: Apache-2.0
// Sparse attention over its whole parameter space against the document's
// formula.
#include <gtest/gtest.h>

#include "tests/testing/sparse_call.h"

namespace flashacl::testing {
namespace {

TEST(SparseConformance, RandomCallsAnswerTheFormula) {
  for (uint64_t seed = 1; seed <= 800; ++seed) {
    Random random(seed);
    const SparseCase c = RandomSparseForwardCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    SparseForwardCall(c, seed).ExpectAsDocumented();
    if (::testing::Test::HasFailure()) return;
  }
}

// The sizes models have: latent keys of 512 and 64 channels in pages.
TEST(SparseConformance, SizesOfModels) {
  for (const bool packed : {false, true}) {
    SparseCase c{.type = ACL_BF16,
                 .packed = packed,
                 .page_rows = 64,
                 .heads = 16,
                 .rows = 2,
                 .columns = 128,
                 .dim = 512,
                 .v_dim = 512,
                 .rope_dim = 64,
                 .top_k = 40,
                 .mode = 3,
                 .scale = 0.02,
                 .query_lengths = {1, 2},
                 .key_lengths = {100, 128},
                 .statistics = false};
    if (!packed) c.query_lengths = {};
    SCOPED_TRACE(ToString(c));
    SparseForwardCall(c).ExpectAsDocumented();
  }
}

}  // namespace
}  // namespace flashacl::testing
