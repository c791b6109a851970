// SPDX-License-Identifier: Apache-2.0
// Decode over its whole parameter space against the document's formula.
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/decode_call.h"

namespace flashacl::testing {
namespace {

TEST(DecodeConformance, RandomCallsAnswerTheFormula) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed);
    const DecodeCase c = RandomDecodeCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    DecodeCall(c, seed).ExpectAsDocumented();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(DecodeConformance, RandomCallsOfEarlierVersions) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const DecodeCase c = RandomEarlierDecodeCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + ToString(c));
    DecodeCall(c, seed).ExpectAsDocumented();
    if (::testing::Test::HasFailure()) return;
  }
}

// Scores that differ by hundreds leave one key with all the weight.
TEST(DecodeConformance, LargeScoresDoNotOverflow) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    DecodeCall call({.type = type, .dim = 64, .scale = 40.0});
    call.ExpectAsDocumented();
  }
}

}  // namespace
}  // namespace flashacl::testing
