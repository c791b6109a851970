// SPDX-License-Identifier: Apache-2.0
// The environment is read once, and nonsense in it counts as not set.
#include "acl/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "acl/backend.h"
#include "backends.h"
#include "tests/testing/child.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::RunChild;

// A child, which Environment.IsReadOnce starts.
TEST(EnvironmentChild, DISABLED_Set) {
  const Environment& e = TheEnvironment();
  EXPECT_EQ(e.trace_path, "/tmp/trace");
  EXPECT_TRUE(e.strict);
  EXPECT_EQ(e.num_threads, 3);
  EXPECT_TRUE(e.has_visible_devices);
  EXPECT_EQ(e.visible_devices, "0,1");
  EXPECT_EQ(e.log_level, 1);
  EXPECT_TRUE(e.log_to_stdout);
  EXPECT_EQ(e.home_path, "/opt/home");
  EXPECT_EQ(e.devices, 2);
  EXPECT_EQ(e.soc, "Ascend910B3");
  // Later changes are not seen.
  setenv("FLASHACL_NUM_THREADS", "5", 1);
  EXPECT_EQ(TheEnvironment().num_threads, 3);
}

TEST(Environment, IsReadOnce) {
  const auto child = RunChild("EnvironmentChild.DISABLED_Set",
                              {{"FLASHACL_TRACE", "/tmp/trace"},
                               {"FLASHACL_STRICT", "1"},
                               {"FLASHACL_NUM_THREADS", "3"},
                               {"ASCEND_RT_VISIBLE_DEVICES", "0,1"},
                               {"ASCEND_GLOBAL_LOG_LEVEL", "1"},
                               {"ASCEND_SLOG_PRINT_TO_STDOUT", "1"},
                               {"ASCEND_HOME_PATH", "/opt/home"},
                               {"FLASHACL_DEVICES", "2"},
                               {"FLASHACL_SOC", "Ascend910B3"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

// A child, which Environment.IgnoresNonsense starts.
TEST(EnvironmentChild, DISABLED_Nonsense) {
  const Environment& e = TheEnvironment();
  EXPECT_FALSE(e.strict);
  EXPECT_EQ(e.num_threads, 0);
  EXPECT_EQ(e.log_level, 3);
  EXPECT_FALSE(e.log_to_stdout);
  EXPECT_EQ(e.devices, 0);
}

TEST(Environment, IgnoresNonsense) {
  for (const char* value : {"", "-1", "2x", "99999999999999999999", " "}) {
    const auto child = RunChild("EnvironmentChild.DISABLED_Nonsense",
                                {{"FLASHACL_STRICT", value},
                                 {"FLASHACL_NUM_THREADS", value},
                                 {"FLASHACL_DEVICES", value},
                                 {"ASCEND_GLOBAL_LOG_LEVEL", value},
                                 {"ASCEND_SLOG_PRINT_TO_STDOUT", value}});
    EXPECT_TRUE(child.ok()) << value << "\n" << child.output;
  }
}

// A child, which Environment.LimitsVectorInstructions starts.
TEST(EnvironmentChild, DISABLED_Target) {
  EXPECT_EQ(TheBackend().device.vector_target, "SSE4");
  EXPECT_TRUE(TargetStatus().ok());
}

TEST(Environment, LimitsVectorInstructions) {
  if (!LimitVectorTarget("SSE4").ok()) GTEST_SKIP() << "not an x86 processor";
  ASSERT_TRUE(LimitVectorTarget("").ok());
  const auto child = RunChild("EnvironmentChild.DISABLED_Target",
                              {{"FLASHACL_TARGET", "SSE4"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

// A child, which Environment.UnknownTargetsAreRefused starts.
TEST(EnvironmentChild, DISABLED_UnknownTarget) {
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  const auto calls = testing::AllOperatorCalls();
  EXPECT_TRUE(testing::FailsWith(161002, calls[0].Prepare(&bytes, &executor),
                                 "FLASHACL_TARGET: vector target AVX9"));
}

TEST(Environment, UnknownTargetsAreRefused) {
  const auto child = RunChild("EnvironmentChild.DISABLED_UnknownTarget",
                              {{"FLASHACL_TARGET", "AVX9"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::acl
