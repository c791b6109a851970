// SPDX-License-Identifier: Apache-2.0
// Gradients of sparse attention over the whole parameter space against the
// document's formula.
#include <gtest/gtest.h>

#include "tests/testing/sparse_call.h"

namespace flashacl::testing {
namespace {

TEST(SparseGradConformance, RandomCallsAnswerTheFormula) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    const SparseCase c = RandomSparseBackwardCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    SparseBackwardCall(c, seed).ExpectAsDocumented();
    if (::testing::Test::HasFailure()) return;
  }
}

// Head dims of a latent cache: 512 channels, 64 of rope, value is key.
TEST(SparseGradConformance, LatentDims) {
  for (const bool packed : {true, false}) {
    for (const int64_t mode : {0, 3}) {
      SparseCase c{.type = ACL_BF16,
                   .packed = packed,
                   .dim = 512,
                   .v_dim = 512,
                   .rope_dim = 64,
                   .mode = mode,
                   .scale = 1.0 / 24};
      if (!packed) c.query_lengths = c.key_lengths = {};
      SCOPED_TRACE(ToString(c));
      SparseBackwardCall(c).ExpectAsDocumented();
    }
  }
}

// Scores that differ by hundreds leave one key with all the weight.
TEST(SparseGradConformance, LargeScoresDoNotOverflow) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    SparseBackwardCall({.type = type, .dim = 64, .v_dim = 64, .scale = 10.0})
        .ExpectAsDocumented();
  }
}

}  // namespace
}  // namespace flashacl::testing
