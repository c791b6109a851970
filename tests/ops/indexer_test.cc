// SPDX-License-Identifier: Apache-2.0
// Whose fault a mismatch is: sparse attention's words, another number.
#include "ops/indexer.h"

#include <gtest/gtest.h>

namespace flashacl::ops {
namespace {

TEST(AsContradiction, ChangesNothingButTheCode) {
  const Status status = AsContradiction(Invalid("key: 3 heads"));
  EXPECT_EQ(status.code(), Code::kContradiction);
  EXPECT_EQ(status.message(), "key: 3 heads");
  EXPECT_TRUE(AsContradiction({}).ok());
  EXPECT_EQ(AsContradiction(NullArgument("key")).code(), Code::kNullArgument);
}

}  // namespace
}  // namespace flashacl::ops
