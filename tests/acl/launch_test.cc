// SPDX-License-Identifier: Apache-2.0
// Phase two of every operator is the same function; executor_test.cc shows the
// rest of it.
#include <gtest/gtest.h>

#include "acl/executor.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using testing::FailsWith;

TEST(Launch, TakesLiveExecutorsOnly) {
  EXPECT_TRUE(FailsWith(161001, Launch(nullptr, 0, nullptr, nullptr),
                        "executor cannot be nullptr"));
  int none = 0;
  EXPECT_TRUE(FailsWith(
      561000,
      Launch(nullptr, 0, reinterpret_cast<aclOpExecutor*>(&none), nullptr),
      "not a live aclOpExecutor"));
}

}  // namespace
}  // namespace flashacl::acl
