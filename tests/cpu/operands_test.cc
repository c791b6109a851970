// SPDX-License-Identifier: Apache-2.0
// What every row's owner writes is not cleared first: it would cost a pass over
// the results. That rows of nobody become 0, that nothing else is written and
// that tiles point where specs say, right_test.cc shows.
#include <gtest/gtest.h>

#include "cpu/forward/forward_operands.h"
#include "tests/cpu/runs.h"
#include "tests/testing/generator.h"

namespace flashacl::cpu {
namespace {

TEST(Operands, NothingIsClearedWhereEveryRowHasAnOwner) {
  testing::Space space;
  space.device_lengths = space.strides = space.sources = false;
  space.most_dim = 12;
  testing::ForRandomProblems(
      600, space, [](const AttentionProblem& p, Random& random) {
        SmallCase small(p);
        small.FillInputs(random);
        const SmallCase before(p);
        const ForwardOperands operands(p, small.bindings(), 1);
        if (p.direction == Direction::kForward) {
          operands.ClearUnownedRows();
        } else {
          operands.ClearUnownedGradients(false);
        }
        testing::ExpectSameBits(small, before);
      });
}

}  // namespace
}  // namespace flashacl::cpu
