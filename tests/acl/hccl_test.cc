// SPDX-License-Identifier: Apache-2.0
// Collectives are refused by name; what needs no group works.
#include "hccl/hccl.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "acl/acl.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;

// Calls a function with zeros, whatever its parameters.
template <typename... Args>
HcclResult CallWithZeros(HcclResult (*function)(Args...)) {
  return function(Args{}...);
}

#define REFUSED(function)                                            \
  EXPECT_TRUE(FailsWith(HCCL_E_NOT_SUPPORT, CallWithZeros(function), \
                        #function " is not supported"))

TEST(Hccl, SaysSoByName) {
  Message();
  REFUSED(HcclGetRootInfo);
  REFUSED(HcclCommInitClusterInfo);
  REFUSED(HcclCommInitRootInfo);
  REFUSED(HcclCommInitRootInfoConfig);
  REFUSED(HcclCommInitAll);
  REFUSED(HcclCommDestroy);
  REFUSED(HcclGetRankSize);
  REFUSED(HcclGetRankId);
  REFUSED(HcclGetCommName);
  REFUSED(HcclGetCommAsyncError);
  REFUSED(HcclBarrier);
  REFUSED(HcclAllReduce);
  REFUSED(HcclBroadcast);
  REFUSED(HcclReduceScatter);
  REFUSED(HcclScatter);
  REFUSED(HcclAllGather);
  REFUSED(HcclReduce);
  REFUSED(HcclAlltoAll);
  REFUSED(HcclAlltoAllV);
  REFUSED(HcclSend);
  REFUSED(HcclRecv);
  REFUSED(HcclBatchSendRecv);
}

#undef REFUSED

// A program that asks for deterministic results gets them.
TEST(Hccl, KeepsSettings) {
  Message();
  HcclConfigValue value = {7};
  for (const int32_t level : {1, 2, 3, 0}) {
    EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, {level}), HCCL_SUCCESS);
    EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &value), HCCL_SUCCESS);
    EXPECT_EQ(value.value, level);
  }
  EXPECT_EQ(Message(), "");
  for (const int32_t level : {-1, 4}) {
    EXPECT_TRUE(FailsWith(HCCL_E_PARA,
                          HcclSetConfig(HCCL_DETERMINISTIC, {level}),
                          "configValue"));
  }
  EXPECT_TRUE(FailsWith(HCCL_E_PARA, HcclSetConfig(HCCL_CONFIG_RESERVED, {9}),
                        "config"));
  EXPECT_TRUE(FailsWith(
      HCCL_E_PTR, HcclGetConfig(HCCL_CONFIG_RESERVED, nullptr), "configValue"));
  EXPECT_TRUE(FailsWith(HCCL_E_PARA,
                        HcclGetConfig(HCCL_CONFIG_RESERVED, &value), "config"));
}

TEST(Hccl, NamesEveryStatus) {
  std::set<std::string> texts;
  for (int code = 0; code < HCCL_E_RESERVED; ++code) {
    texts.insert(HcclGetErrorString(static_cast<HcclResult>(code)));
  }
  EXPECT_EQ(texts.size(), static_cast<size_t>(HCCL_E_RESERVED));
  EXPECT_STREQ(HcclGetErrorString(HCCL_SUCCESS), "no error");
  EXPECT_STREQ(HcclGetErrorString(HCCL_E_NOT_SUPPORT), "feature not supported");
  for (const int code : {-1, static_cast<int>(HCCL_E_RESERVED), 1 << 30}) {
    EXPECT_STREQ(HcclGetErrorString(static_cast<HcclResult>(code)),
                 "unknown error");
  }
}

TEST(Hccl, GroupsHaveUsualSettings) {
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  EXPECT_EQ(config.hcclBufferSize, 200u);
  EXPECT_EQ(config.hcclDeterministic, 0u);
  EXPECT_STREQ(config.hcclCommName, "");
}

}  // namespace
}  // namespace flashacl::acl
