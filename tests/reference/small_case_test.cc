// SPDX-License-Identifier: Apache-2.0
// Cases that take over another's inputs.
#include "tests/testing/small_case.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "problem/notation.h"

namespace flashacl {
namespace {

SmallCase CaseOf(const char* line) { return SmallCase(*Parse(line)); }

TEST(SmallCase, TakesOverWhatBothHave) {
  SmallCase from = CaseOf("fwd f32 h=1 d=1 q=3,4 k=5,6 mask sink");
  SmallCase to = CaseOf("fwd f32 h=1 d=1 q=3,4 k=5,6 mask bias");
  from.Set(Slot::kQuery, {1, 2, 3, 4, 5, 6, 7});
  from.Put(Slot::kMask, 23, 1);
  to.Put(Slot::kBias, 0, 2);
  to.CopyInputs(from);
  EXPECT_EQ(to.Get(Slot::kQuery), from.Get(Slot::kQuery));
  EXPECT_EQ(to.Get(Slot::kMask), from.Get(Slot::kMask));
  EXPECT_EQ(to.Get(Slot::kBias, 0), 2);
}

// As many rows and columns in all, and the same specs, but blocks of 38 and 39
// elements.
TEST(SmallCase, TakesOverNoGridOfAnotherSize) {
  static SmallCase small = CaseOf("fwd f32 h=1 d=1 q=4,3 k=5,6 mask:bij");
  static SmallCase large = CaseOf("fwd f32 h=1 d=1 q=3,4 k=5,6 mask:bij");
  ASSERT_EQ(small.problem()[Slot::kMask], large.problem()[Slot::kMask]);
  EXPECT_EQ(small.count(Slot::kMask), 38);
  EXPECT_EQ(large.count(Slot::kMask), 39);
  EXPECT_FATAL_FAILURE(small.CopyInputs(large), "mask");
  EXPECT_FATAL_FAILURE(large.CopyInputs(small), "mask");
}

TEST(SmallCase, TakesOverNoListsOfOtherLengths) {
  static SmallCase one = CaseOf("fwd f32 h=1 d=1 q=2x1 k=5,6 list");
  static SmallCase other = CaseOf("fwd f32 h=1 d=1 q=2x1 k=6,5 list");
  EXPECT_FATAL_FAILURE(one.CopyInputs(other), "key_list");
  one.SetList(Slot::kKey, 0, {1, 2, 3, 4, 5});
  SmallCase same = CaseOf("fwd f32 h=1 d=1 q=2x1 k=5,6 list");
  same.CopyInputs(one);
  EXPECT_EQ(same.GetKey(Slot::kKey, {0, 4, 0}, 0), 5);
}

}  // namespace
}  // namespace flashacl
