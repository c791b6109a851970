// SPDX-License-Identifier: Apache-2.0
// The program's log: silent unless the environment asks for it.
#include <gtest/gtest.h>

#include <string>

#include "acl/acl.h"
#include "tests/testing/child.h"

namespace {

using ::flashacl::testing::RunChild;

// A child, which Output starts.
TEST(AppLogChild, DISABLED_Logs) {
  aclAppLog(ACL_INFO, "func", "file.cc", 12, "info %d", 1);
  aclAppLog(ACL_ERROR, "func", "file.cc", 34, "error %s", "two");
  aclAppLog(ACL_ERROR, nullptr, nullptr, 0, "%s",
            std::string(2000, 'x').c_str());
  aclAppLog(ACL_ERROR, "func", "file.cc", 1, nullptr);
  aclAppLog(static_cast<aclLogLevel>(-1), "func", "file.cc", 1, "below");
  aclAppLog(static_cast<aclLogLevel>(4), "func", "file.cc", 1, "above");
  ACL_APP_LOG(ACL_WARNING, "macro %d", 3);
}

std::string Output(const std::string& level, const std::string& to_stdout) {
  const auto child = RunChild("AppLogChild.DISABLED_Logs",
                              {{"ASCEND_GLOBAL_LOG_LEVEL", level},
                               {"ASCEND_SLOG_PRINT_TO_STDOUT", to_stdout}});
  EXPECT_TRUE(child.ok()) << child.output;
  return child.output;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(AppLog, PrintsWhatTheLevelAllows) {
  const std::string errors = Output("3", "1");
  EXPECT_TRUE(Has(errors, "[ERROR] func file.cc:34: error two\n"));
  EXPECT_FALSE(Has(errors, "info 1"));
  EXPECT_FALSE(Has(errors, "macro 3"));
  EXPECT_TRUE(Has(errors, std::string(1023, 'x') + "\n"));
  EXPECT_FALSE(Has(errors, std::string(1024, 'x')));
  EXPECT_FALSE(Has(errors, "below"));
  EXPECT_FALSE(Has(errors, "above"));
  const std::string all = Output("0", "1");
  EXPECT_TRUE(Has(all, "[INFO] func file.cc:12: info 1\n"));
  EXPECT_TRUE(Has(all, "macro 3"));
}

TEST(AppLog, IsSilentByDefault) {
  EXPECT_FALSE(Has(Output("0", "0"), "error two"));
  EXPECT_FALSE(Has(Output("0", ""), "error two"));
}

}  // namespace
