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
                               {"OMP_NUM_THREADS", "7"},
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
                                 {"OMP_NUM_THREADS", value},
                                 {"FLASHACL_DEVICES", value},
                                 {"ASCEND_GLOBAL_LOG_LEVEL", value},
                                 {"ASCEND_SLOG_PRINT_TO_STDOUT", value}});
    EXPECT_TRUE(child.ok()) << value << "\n" << child.output;
    // Once each, of ours alone; empty is not set.
    const bool empty = *value == '\0';
    for (const char* name :
         {"FLASHACL_STRICT", "FLASHACL_NUM_THREADS", "FLASHACL_DEVICES"}) {
      const std::string line =
          std::string("FlashACL: ") + name + "=" + value + " is ignored: ";
      const size_t first = child.output.find(line);
      EXPECT_EQ(first == std::string::npos, empty) << child.output;
      if (empty) continue;
      EXPECT_EQ(child.output.find(line, first + 1), std::string::npos);
    }
    EXPECT_EQ(child.output.find("FlashACL: ASCEND"), std::string::npos);
  }
}

// A child, which Environment.StrictMayEndTheProcess starts.
TEST(EnvironmentChild, DISABLED_Exit) {
  EXPECT_TRUE(TheEnvironment().strict);
  EXPECT_TRUE(TheEnvironment().strict_exit);
}

TEST(Environment, StrictMayEndTheProcess) {
  const auto child =
      RunChild("EnvironmentChild.DISABLED_Exit", {{"FLASHACL_STRICT", "exit"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

// A child, which Environment.OpenMpsThreadsAreTheDefault starts.
TEST(EnvironmentChild, DISABLED_OpenMp) {
  EXPECT_EQ(TheEnvironment().num_threads, 5);
}

TEST(Environment, OpenMpsThreadsAreTheDefault) {
  for (const char* value : {"5", "5,2"}) {
    const auto child =
        RunChild("EnvironmentChild.DISABLED_OpenMp",
                 {{"FLASHACL_NUM_THREADS", ""}, {"OMP_NUM_THREADS", value}});
    EXPECT_TRUE(child.ok()) << value << "\n" << child.output;
  }
}

// What every processor of this kind has.
#if defined(__aarch64__)
constexpr const char* kLeastTarget = "NEON";
#else
constexpr const char* kLeastTarget = "SSE4";
#endif

// A child, which Environment.LimitsVectorInstructions starts.
TEST(EnvironmentChild, DISABLED_Target) {
  EXPECT_EQ(TheBackend().device.vector_target, kLeastTarget);
  EXPECT_TRUE(TargetStatus().ok());
}

TEST(Environment, LimitsVectorInstructions) {
  if (!LimitVectorTarget(kLeastTarget).ok()) {
    GTEST_SKIP() << "not compiled for " << kLeastTarget
                 << "; release is, and runs it";
  }
  ASSERT_TRUE(LimitVectorTarget("").ok());
  const auto child = RunChild("EnvironmentChild.DISABLED_Target",
                              {{"FLASHACL_TARGET", kLeastTarget}});
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
