// SPDX-License-Identifier: Apache-2.0
// Random calls of the forward on packed sequences, over everything its document
// lets a caller combine, against the document's formulas.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/testing/random.h"
#include "tests/testing/varlen_oracle.h"
#include "tests/testing/varlen_random.h"

namespace flashacl::testing {
namespace {

VarLenCase RandomCase(Random& random) {
  VarLenCase c;
  c.sizes.type = OneOf(random, {ACL_FLOAT16, ACL_BF16, ACL_FLOAT});
  ChooseSizesAndMask(c, Pass::kForward, random);
  const bool split = c.mask != MaskForm::kNone && c.mode >= 7;
  if (!split && random.OneIn(3)) {
    c.pse = OneOf(random, {PseForm::kEvery, PseForm::kShared});
  }
  if (random.OneIn(3)) {
    c.dropout = true;
    c.keep = OneOf(random, {1.0, 0.9, 0.5, 0.1});
  }
  c.inner_precise = random.Within(0, 2);
  return c;
}

class VarLenScoreConformance : public ::testing::TestWithParam<int> {};

// In parts, so that they share the cores.
TEST_P(VarLenScoreConformance, DoesWhatTheDocumentSays) {
  for (uint64_t n = 0; n < 150; ++n) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1000 + n;
    Random random(seed);
    const VarLenCase c = RandomCase(random);
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << ToString(c));
    ExpectForward(c, random);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, VarLenScoreConformance, ::testing::Range(0, 8));

}  // namespace
}  // namespace flashacl::testing
