// SPDX-License-Identifier: Apache-2.0
// What a person hears of errors: nothing, unless the environment asks.
#include "acl/say.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <regex>
#include <string>

#include "acl/acl.h"
#include "tests/testing/child.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::RunChild;

// A child, which Output starts.
TEST(SayChild, DISABLED_Fails) {
  EXPECT_NE(aclrtFree(nullptr), 0);
  EXPECT_NE(aclGetRecentErrMsg(), nullptr);
}

std::string Output(const std::map<std::string, std::string>& environment) {
  const auto child = RunChild("SayChild.DISABLED_Fails", environment);
  EXPECT_TRUE(child.ok()) << child.output;
  return child.output;
}

int Lines(const std::string& output) {
  static const std::regex line(
      R"(\[ERROR\] FLASHACL\(\d+,[^)]+\):\d{4}(-\d\d){3}:\d\d:\d\d)"
      R"(\.\d{3}\.\d{3} \[100000\]\d+ Invalid_Argument_Null_Pointer)"
      R"(\(EH0008\): aclrtFree failed because devPtr cannot be a NULL )"
      "pointer");
  return static_cast<int>(
      std::distance(std::sregex_iterator(output.begin(), output.end(), line),
                    std::sregex_iterator()));
}

TEST(Say, ErrorsAreHeardWhereTheEnvironmentAsks) {
  EXPECT_EQ(Lines(Output({})), 0);
  EXPECT_EQ(Lines(Output({{"ASCEND_SLOG_PRINT_TO_STDOUT", "1"}})), 1);
  EXPECT_EQ(Lines(Output({{"FLASHACL_STRICT", "1"}})), 1);
  EXPECT_EQ(Lines(Output({{"FLASHACL_STRICT", "1"},
                          {"ASCEND_SLOG_PRINT_TO_STDOUT", "1"}})),
            1);
}

TEST(Say, SizesAreReadable) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(12345678), "12,345,678");
}

}  // namespace
}  // namespace flashacl::acl
