// SPDX-License-Identifier: Apache-2.0
// The profiler that nobody listens to: numbers are right, reports are taken.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/testing/runtime.h"

extern "C" {
uint64_t MsprofSysCycleTime(void);
uint64_t MsprofGetHashId(const char* info, size_t length);
int32_t MsprofReportApi(uint32_t, const struct MsprofApi*);
int32_t MsprofReportCompactInfo(uint32_t, const void*, uint32_t);
int32_t MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t);
int32_t MsprofRegisterCallback(uint32_t,
                               int32_t (*)(uint32_t, void*, uint32_t));
}

namespace flashacl::acl {
namespace {

TEST(Msprof, TellsTheTimeInNanoseconds) {
  const uint64_t before = MsprofSysCycleTime();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_GE(MsprofSysCycleTime() - before, 2'000'000u);
}

TEST(Msprof, HashesTexts) {
  const std::string text = "aclnnFlashAttentionScore";
  const uint64_t id = MsprofGetHashId(text.data(), text.size());
  EXPECT_NE(id, 0u);
  EXPECT_EQ(MsprofGetHashId(std::string(text).c_str(), text.size()), id);
  EXPECT_NE(MsprofGetHashId(text.data(), text.size() - 1), id);
  EXPECT_NE(MsprofGetHashId("", 0), 0u);
  EXPECT_EQ(MsprofGetHashId(nullptr, 5), 0u);
}

TEST(Msprof, TakesReportsUnread) {
  testing::Message();
  EXPECT_EQ(MsprofReportApi(0, nullptr), 0);
  EXPECT_EQ(MsprofReportCompactInfo(1, nullptr, 99), 0);
  EXPECT_EQ(MsprofReportAdditionalInfo(1, nullptr, 99), 0);
  EXPECT_EQ(MsprofRegisterCallback(7, nullptr), 0);
  EXPECT_EQ(testing::Message(), "");
}

}  // namespace
}  // namespace flashacl::acl
