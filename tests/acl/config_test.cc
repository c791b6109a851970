// SPDX-License-Identifier: Apache-2.0
// Which configuration files are JSON, and what is taken from them.
#include "acl/config.h"

#include <gtest/gtest.h>

#include <string>

namespace flashacl::acl {
namespace {

TEST(Config, AcceptsJsonObjects) {
  for (const char* text :
       {"{}", " { } \n", R"({"a":1})",
        R"({"a":[1,-2.5e+3,"x",{},[]],"b":null})",
        R"({"a":{"b":{"c":true}},"d":false,"e":0,"f":"\u00e9\\\""})",
        R"({"profiler":{"switch":"on"},"dump":{"dump_list":[{"x":"y"}]}})"}) {
    EXPECT_TRUE(ParseConfig(text).ok()) << text;
  }
}

TEST(Config, RefusesEverythingElse) {
  for (const char* text : {"",
                           " ",
                           "[]",
                           "1",
                           "{",
                           "}",
                           "{}x",
                           "{,}",
                           R"({"a"})",
                           R"({"a":})",
                           R"({"a":1,})",
                           R"({"a":01})",
                           R"({"a":1.})",
                           R"({"a":1e})",
                           R"({"a":-})",
                           R"({"a":+1})",
                           R"({"a":"x})",
                           R"({"a":"\x"})",
                           R"({"a":"\u12g4"})",
                           R"({"a":"\)",
                           R"({"a":[1,]})",
                           R"({"a":[1})",
                           R"({a:1})",
                           R"({'a':1})",
                           R"({"a":tru})",
                           "{\"a\":\"\n\"}"}) {
    EXPECT_FALSE(ParseConfig(text).ok()) << text;
  }
  EXPECT_FALSE(ParseConfig(std::string_view("{\0}", 3)).ok());
}

TEST(Config, DepthIsBounded) {
  const auto nested = [](int depth) {
    return "{\"a\":" + std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']') + "}";
  };
  EXPECT_TRUE(ParseConfig(nested(60)).ok());
  EXPECT_FALSE(ParseConfig(nested(100)).ok());
  EXPECT_FALSE(ParseConfig(std::string(1000000, '{')).ok());
}

TEST(Config, ReadsItsKeys) {
  EXPECT_FALSE(ParseConfig("{}")->process_messages);
  EXPECT_EQ(ParseConfig("{}")->default_device, -1);
  EXPECT_TRUE(ParseConfig(R"({"err_msg_mode":"1"})")->process_messages);
  EXPECT_FALSE(ParseConfig(R"({"err_msg_mode":"0"})")->process_messages);
  const char* device = R"({"defaultDevice":{"default_device":"0"}})";
  EXPECT_EQ(ParseConfig(device)->default_device, 0);
  // Only at their own place, and only with a value of their own.
  const char* elsewhere = R"({"a":{"err_msg_mode":"1"},"default_device":"0"})";
  EXPECT_FALSE(ParseConfig(elsewhere)->process_messages);
  EXPECT_EQ(ParseConfig(elsewhere)->default_device, -1);
  const char* odd = R"({"defaultDevice":{"default_device":"x"}})";
  EXPECT_EQ(ParseConfig(odd)->default_device, -1);
}

}  // namespace
}  // namespace flashacl::acl
