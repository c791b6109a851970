// SPDX-License-Identifier: Apache-2.0
// Random calls of the backward on packed sequences, over everything its
// document lets a caller combine, against the document's formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/testing/random.h"
#include "tests/testing/varlen_oracle.h"
#include "tests/testing/varlen_random.h"

namespace flashacl::testing {
namespace {

// Rope goes with a mask, and without biases, dropout and mode 6.
void ChooseRope(VarLenCase& c, Random& random) {
  if (c.mask == MaskForm::kNone || c.mode == 6 || !random.OneIn(3)) return;
  c.sizes.type = ACL_BF16;
  c.rope_dim = random.Within(1, c.sizes.dim);
}

// Modes that cut a sequence take no bias, or only one for the uncut.
void ChoosePse(VarLenCase& c, Random& random) {
  const bool split = c.mask != MaskForm::kNone && c.mode >= 7;
  if (c.rope_dim > 0 || split || random.OneIn(2)) return;
  c.pse_type = random.Within(0, 3);
  c.pse = c.pse_type < 2
              ? OneOf(random, {PseForm::kEvery, PseForm::kShared})
              : OneOf(random, {PseForm::kSlopes, PseForm::kSlopesEach});
  c.pse_gradient = random.OneIn(2);
  if (random.OneIn(2)) c.q_start = random.Within(-5, 20);
  if (random.OneIn(2)) c.kv_start = random.Within(-5, 20);
  // A bias without elements is none, and only type 1 can be without.
  const int64_t rows =
      *std::max_element(c.sizes.rows.begin(), c.sizes.rows.end());
  const int64_t columns =
      *std::max_element(c.sizes.columns.begin(), c.sizes.columns.end());
  if (c.pse_type == 0 && (rows == 0 || columns == 0)) c.pse_type = 1;
}

VarLenCase RandomCase(Random& random) {
  VarLenCase c;
  c.sizes.type = OneOf(random, {ACL_FLOAT16, ACL_BF16, ACL_FLOAT});
  ChooseSizesAndMask(c, Pass::kBackward, random);
  ChooseRope(c, random);
  ChoosePse(c, random);
  if (c.rope_dim == 0 && random.OneIn(3)) {
    c.dropout = true;
    c.keep = OneOf(random, {0.9, 0.5, 0.1});
  }
  c.sink = c.sizes.type != ACL_FLOAT && random.OneIn(3);
  c.sink_gradient = !random.OneIn(4);
  c.same_as_input = random.OneIn(2);
  c.foreign = random.OneIn(2);
  return c;
}

class VarLenScoreGradConformance : public ::testing::TestWithParam<int> {};

// In parts, so that they share the cores.
TEST_P(VarLenScoreGradConformance, DoesWhatTheDocumentSays) {
  for (uint64_t n = 0; n < 150; ++n) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1000 + n;
    Random random(seed);
    const VarLenCase c = RandomCase(random);
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
