// SPDX-License-Identifier: Apache-2.0
// Prefill over its whole parameter space against the document's formula.
#include <gtest/gtest.h>

#include "tests/testing/prompt_call.h"

namespace flashacl::testing {
namespace {

TEST(PromptConformance, RandomCallsAnswerTheFormula) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const PromptCase c = RandomPromptCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    PromptCall(c, seed).ExpectAsDocumented();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(PromptConformance, RandomCallsOfLaterVersions) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed);
    const PromptCase c = RandomLaterPromptCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    PromptCall(c, seed).ExpectAsDocumented();
    if (::testing::Test::HasFailure()) return;
  }
}

// Scores that differ by hundreds leave one key with all the weight.
TEST(PromptConformance, LargeScoresDoNotOverflow) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    PromptCall call({.type = type, .dim = 64, .scale = 40.0});
    call.ExpectAsDocumented();
  }
}

}  // namespace
}  // namespace flashacl::testing
