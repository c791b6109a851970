// SPDX-License-Identifier: Apache-2.0
// Statuses of the address setters, in all twelve spellings.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/testing/tiny_operator.h"

namespace flashacl::acl {
namespace {

using testing::TinyCall;

using SetOne = aclnnStatus (*)(aclOpExecutor*, size_t, aclTensor*, void*);
using SetMember = aclnnStatus (*)(aclOpExecutor*, size_t, size_t,
                                  aclTensorList*, void*);

constexpr SetOne kSetOne[] = {
    aclSetInputTensorAddr, aclSetOutputTensorAddr, aclSetTensorAddr,
    AclSetInputTensorAddr, AclSetOutputTensorAddr, AclSetTensorAddr,
};
constexpr SetMember kSetMember[] = {
    aclSetDynamicInputTensorAddr,  aclSetDynamicOutputTensorAddr,
    aclSetDynamicTensorAddr,       AclSetDynamicInputTensorAddr,
    AclSetDynamicOutputTensorAddr, AclSetDynamicTensorAddr,
};

class AddressTest : public ::testing::Test {
 protected:
  AddressTest() {
    EXPECT_EQ(call_.Prepare(), 0);
    EXPECT_EQ(aclSetAclOpExecutorRepeatable(call_.executor), 0);
  }
  ~AddressTest() override { aclDestroyAclOpExecutor(call_.executor); }

  void ExpectMessage() { EXPECT_NE(aclGetRecentErrMsg(), nullptr); }

  float* AddressOf(const aclTensor* tensor) {
    void* address = nullptr;
    EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), 0);
    return static_cast<float*>(address);
  }

  TinyCall call_{2};
  aclTensor* const foreign_ = reinterpret_cast<aclTensor*>(uintptr_t{0x12340});
};

TEST_F(AddressTest, NullsAre561103) {
  for (const SetOne set : kSetOne) {
    EXPECT_EQ(set(nullptr, 0, call_.query, nullptr), 561103);
    ExpectMessage();
    EXPECT_EQ(set(call_.executor, 0, nullptr, nullptr), 561103);
    ExpectMessage();
  }
  for (const SetMember set : kSetMember) {
    EXPECT_EQ(set(nullptr, 1, 0, call_.key, nullptr), 561103);
    ExpectMessage();
    EXPECT_EQ(set(call_.executor, 1, 0, nullptr, nullptr), 561103);
    ExpectMessage();
  }
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(nullptr), 561103);
  ExpectMessage();
  EXPECT_EQ(aclDestroyAclOpExecutor(nullptr), 561103);
  ExpectMessage();
}

TEST_F(AddressTest, OutOfRangeIs161002) {
  for (const SetOne set : kSetOne) {
    EXPECT_EQ(set(call_.executor, 99, foreign_, nullptr), 161002);
    ExpectMessage();
  }
  for (const SetMember set : kSetMember) {
    EXPECT_EQ(set(call_.executor, 99, 0, call_.key, nullptr), 161002);
    ExpectMessage();
    EXPECT_EQ(set(call_.executor, 1, 99, call_.key, nullptr), 161002);
    ExpectMessage();
    // Parameter 0 is no list.
    EXPECT_EQ(set(call_.executor, 0, 0, call_.key, nullptr), 161002);
    ExpectMessage();
  }
}

TEST_F(AddressTest, ATensorThatWasNullInPhaseOneIs161002) {
  // query, key[0], value[0], maskOptional.
  EXPECT_EQ(aclSetInputTensorAddr(call_.executor, 3, foreign_, nullptr),
            161002);
  ExpectMessage();
}

TEST_F(AddressTest, UnknownExecutorIs561000) {
  auto* const stranger = reinterpret_cast<aclOpExecutor*>(uintptr_t{0x4560});
  EXPECT_EQ(aclSetInputTensorAddr(stranger, 0, call_.query, nullptr), 561000);
  ExpectMessage();
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(stranger), 561000);
  ExpectMessage();
  EXPECT_EQ(aclDestroyAclOpExecutor(stranger), 561000);
  ExpectMessage();
}

TEST_F(AddressTest, FindsByIndexByHandleAndAcrossInputsAndOutputs) {
  float elsewhere[8] = {};
  // The handle's own place wins over an index that is another's.
  EXPECT_EQ(
      aclSetInputTensorAddr(call_.executor, 0, call_.key_member, elsewhere), 0);
  EXPECT_EQ(AddressOf(call_.key_member), elsewhere);
  EXPECT_EQ(AddressOf(call_.query), call_.query_data);
  // A stranger's handle: the index decides.
  EXPECT_EQ(aclSetInputTensorAddr(call_.executor, 0, foreign_, elsewhere), 0);
  EXPECT_EQ(AddressOf(call_.query), elsewhere);
  EXPECT_EQ(aclSetOutputTensorAddr(call_.executor, 0, foreign_, elsewhere), 0);
  EXPECT_EQ(AddressOf(call_.out), elsewhere);
  // Inputs then outputs: the output is number 4.
  EXPECT_EQ(AclSetTensorAddr(call_.executor, 4, foreign_, call_.out_data), 0);
  EXPECT_EQ(AddressOf(call_.out), call_.out_data);
  EXPECT_EQ(
      AclSetDynamicTensorAddr(call_.executor, 1, 0, call_.key, call_.key_data),
      0);
  EXPECT_EQ(AddressOf(call_.key_member), call_.key_data);
}

// What a framework does with a plan it keeps: another thread runs it again and
// again, at addresses given by index and by list, long after the handles died.
TEST_F(AddressTest, AThousandRunsFromAnotherThread) {
  constexpr size_t kPlaces = 4;  // by which addresses rotate
  constexpr size_t kElements = 8;
  float values[kPlaces][kElements] = {};
  float outs[kPlaces][kElements] = {};
  std::vector<char> workspace(call_.workspace_size);
  call_.DestroyHandles();
  std::thread([&] {
    ASSERT_EQ(aclrtSetDevice(0), 0);
    for (size_t run = 0; run < 1000; ++run) {
      float* const value = values[run % kPlaces];
      float* const out = outs[run / 2 % kPlaces];
      const float number = static_cast<float>(run) + 0.5f;
      std::fill_n(value, kElements, number);
      ASSERT_EQ(aclSetDynamicInputTensorAddr(call_.executor, 2, 0, call_.value,
                                             value),
                0);
      ASSERT_EQ(aclSetOutputTensorAddr(call_.executor, 0, call_.out, out), 0);
      ASSERT_EQ(
          Launch(workspace.data(), workspace.size(), call_.executor, nullptr),
          0);
      ASSERT_EQ(aclrtSynchronizeStream(nullptr), 0);
      for (size_t n = 0; n < kElements; ++n) ASSERT_EQ(out[n], number) << run;
    }
    ASSERT_EQ(aclrtResetDevice(0), 0);
  }).join();
}

}  // namespace
}  // namespace flashacl::acl
