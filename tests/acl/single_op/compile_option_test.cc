// SPDX-License-Identifier: Apache-2.0
// Settings of the compiler are kept; compiled operators are found and refused.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_op_compiler.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::Succeeds;

aclCompileOpt Option(int number) { return static_cast<aclCompileOpt>(number); }

TEST(SingleOpCompileOption, IsKept) {
  Message();
  for (int number = 0; number <= ACL_OP_DEBUG_OPTION; ++number) {
    const aclCompileOpt option = Option(number);
    if (option == ACL_AUTO_TUNE_MODE) continue;
    const bool jit = option == ACL_OP_JIT_COMPILE;
    EXPECT_EQ(aclGetCompileoptSize(option), jit ? 256u : 0u) << number;
    EXPECT_TRUE(Succeeds(aclSetCompileopt(option, ""))) << number;
    EXPECT_EQ(aclGetCompileoptSize(option), jit ? 256u : 1u) << number;
    EXPECT_TRUE(Succeeds(aclSetCompileopt(option, "enable"))) << number;
    EXPECT_EQ(aclGetCompileoptSize(option), jit ? 256u : 7u) << number;
  }
  EXPECT_EQ(aclGetCompileoptSize(ACL_AUTO_TUNE_MODE), 0u);
  EXPECT_EQ(aclGetCompileoptSize(Option(-1)), 0u);
  EXPECT_EQ(aclGetCompileoptSize(Option(17)), 0u);
}

TEST(SingleOpCompileOption, ChecksInOrder) {
  for (const int number : {-1, 2, 17}) {
    EXPECT_TRUE(
        FailsWith(100000, aclSetCompileopt(Option(number), nullptr), "value"));
  }
  EXPECT_TRUE(FailsWith(200006, aclSetCompileopt(ACL_AUTO_TUNE_MODE, "x"),
                        "ACL_AUTO_TUNE_MODE"));
  EXPECT_TRUE(FailsWith(500000, aclSetCompileopt(Option(-1), "x"), "opt"));
  EXPECT_TRUE(FailsWith(500000, aclSetCompileopt(Option(17), "x"), "opt"));
}

TEST(SingleOpCompileOption, IsReadBack) {
  std::string text(256, '?');
  EXPECT_TRUE(Succeeds(aclSetCompileopt(ACL_OP_JIT_COMPILE, "enable")));
  EXPECT_TRUE(Succeeds(aclGetCompileopt(ACL_OP_JIT_COMPILE, text.data(), 256)));
  EXPECT_STREQ(text.c_str(), "disable");
  EXPECT_TRUE(Succeeds(aclSetCompileopt(ACL_OP_DEBUG_OPTION, "oom")));
  EXPECT_TRUE(Succeeds(aclGetCompileopt(ACL_OP_DEBUG_OPTION, text.data(), 4)));
  EXPECT_STREQ(text.c_str(), "oom");

  EXPECT_TRUE(FailsWith(
      100000, aclGetCompileopt(ACL_PRECISION_MODE, nullptr, 0), "value"));
  for (const int number : {-1, 0, 11, 17}) {
    EXPECT_TRUE(FailsWith(
        200001, aclGetCompileopt(Option(number), text.data(), 0), "opt"));
  }
  EXPECT_TRUE(FailsWith(
      500001, aclGetCompileopt(ACL_OP_JIT_COMPILE, text.data(), 7), "length"));
  EXPECT_TRUE(FailsWith(
      500001, aclGetCompileopt(ACL_OP_DEBUG_OPTION, text.data(), 3), "length"));
}

TEST(SingleOpCompileOption, ServesThreads) {
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([n] {
      const std::string value(static_cast<size_t>(n + 1), 'x');
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(aclSetCompileopt(ACL_DEBUG_DIR, value.c_str()), 0);
        const size_t size = aclGetCompileoptSize(ACL_DEBUG_DIR);
        EXPECT_TRUE(2 <= size && size <= 5) << size;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SingleOpCompileFlag, HasTwoValues) {
  EXPECT_TRUE(Succeeds(aclopSetCompileFlag(ACL_OP_COMPILE_DEFAULT)));
  EXPECT_TRUE(Succeeds(aclopSetCompileFlag(ACL_OP_COMPILE_FUZZ)));
  for (const int number : {-1, 2}) {
    EXPECT_TRUE(FailsWith(
        100000, aclopSetCompileFlag(static_cast<aclOpCompileFlag>(number)),
        "flag"));
  }
}

TEST(SingleOpModels, HaveOneFolder) {
  EXPECT_TRUE(FailsWith(100000, aclopSetModelDir(nullptr), "modelDir"));
  EXPECT_TRUE(FailsWith(100014, aclopSetModelDir(""), "modelDir"));
  EXPECT_TRUE(FailsWith(100014, aclopSetModelDir("/nowhere/at/all"),
                        "/nowhere/at/all"));
  EXPECT_TRUE(FailsWith(100014, aclopSetModelDir("/proc/self/exe")));
  EXPECT_TRUE(Succeeds(aclopSetModelDir("/proc/self")));
  EXPECT_TRUE(FailsWith(100000, aclopSetModelDir(nullptr), "modelDir"));
  EXPECT_TRUE(FailsWith(100002, aclopSetModelDir("/proc/self"), "before"));
}

TEST(SingleOpModels, AreNotLoaded) {
  const char model[] = "model";
  EXPECT_TRUE(FailsWith(100000, aclopLoad(nullptr, 0), "model"));
  EXPECT_TRUE(FailsWith(100000, aclopLoad(model, 0), "modelSize"));
  EXPECT_TRUE(FailsWith(100016, aclopLoad(model, sizeof model), "aclopLoad"));
}

}  // namespace
}  // namespace flashacl::acl
