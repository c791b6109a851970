// SPDX-License-Identifier: Apache-2.0
// Random calls of all versions of the dense backward in all layouts, over
// everything their documents let a caller combine, against the documents'
// formulas.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/testing/training_oracle.h"
#include "tests/testing/training_random.h"

namespace flashacl::testing {
namespace {

class ScoreGradConformance : public ::testing::TestWithParam<std::string> {};

// In parts, so that they share the cores.
TEST_P(ScoreGradConformance, DoesWhatTheDocumentSays) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const TrainingCase c = ChooseCase(GetParam(), Pass::kBackward, random);
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << ToString(c));
    ExpectBackward(c, random);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ScoreGradConformance,
                         ::testing::Values("BSH", "SBH", "BSND", "BNSD"));

}  // namespace
}  // namespace flashacl::testing
