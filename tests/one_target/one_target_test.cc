// SPDX-License-Identifier: Apache-2.0
// A build whose vector code is for one instruction set: this program's is for
// SSE4, whatever the others' is for.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpu/cpu_info.h"

namespace flashacl::cpu {
namespace {

using Strings = std::vector<std::string>;

TEST(OneTarget, IsWhatIsCompiledAndRuns) {
  EXPECT_EQ(CompiledTargets(), Strings{"SSE4"});
  EXPECT_EQ(DescribeThisCpu().compiled_targets, Strings{"SSE4"});
  ASSERT_TRUE(LimitVectorTarget("").ok());
  EXPECT_EQ(VectorTarget(), "SSE4");
  EXPECT_EQ(DescribeThisCpu().vector_target, "SSE4");
  ASSERT_TRUE(LimitVectorTarget("SSE4").ok());
  EXPECT_EQ(VectorTarget(), "SSE4");
}

TEST(OneTarget, OthersAreRefusedWithTheReason) {
  for (const char* other : {"AVX2", "AVX3", "AVX9000"}) {
    const Status refused = LimitVectorTarget(other);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_EQ(refused.message(),
              "vector target " + std::string(other) +
                  ": this build is for one alone, -DFLASHACL_TARGETS=all "
                  "builds all; expected one of SSE4");
    EXPECT_EQ(VectorTarget(), "SSE4");
  }
}

// As where a prefix was taken to another machine.
TEST(OneTarget, AProcessorWithoutItIsRefused) {
  const Status refused = CheckCompiledFor(0);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_EQ(refused.message(),
            "vector code is compiled for SSE4, which this processor does not "
            "have: compile FlashACL on this machine, or with "
            "-DFLASHACL_TARGETS=all");
}

}  // namespace
}  // namespace flashacl::cpu
