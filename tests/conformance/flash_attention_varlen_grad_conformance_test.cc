// SPDX-License-Identifier: Apache-2.0
// Random calls of all versions of the backward on packed sequences, over
// everything their documents let a caller combine, against the documents'
// formulas.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/testing/training_oracle.h"
#include "tests/testing/training_random.h"

namespace flashacl::testing {
namespace {

class VarLenScoreGradConformance : public ::testing::TestWithParam<int> {};

// In parts, so that they share the cores.
TEST_P(VarLenScoreGradConformance, DoesWhatTheDocumentSays) {
  for (uint64_t n = 0; n < 150; ++n) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1000 + n;
    Random random(seed);
    const TrainingCase c = ChooseCase("TND", Pass::kBackward, random);
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << ToString(c));
    ExpectBackward(c, random);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, VarLenScoreGradConformance,
                         ::testing::Range(0, 8));

}  // namespace
}  // namespace flashacl::testing
