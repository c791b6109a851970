// SPDX-License-Identifier: Apache-2.0
// Strict mode tells what the answer does not need: contents of masks, tables
// and lists. Each case is a process of its own, for the environment is read
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "tests/testing/child.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

constexpr size_t kForward = 0, kDecode = 3, kSparse = 4;
constexpr int kKernelFailed = 507015;

// Runs a call whose tensors hold `bytes`; what synchronising says.
int RunWith(OperatorCall call, std::vector<std::vector<uint8_t>>& bytes) {
  for (size_t n = 0; n < call.tensors.size(); ++n) {
    bytes[n].resize(static_cast<size_t>(call.tensors[n].ExtentBytes()) + 1);
    call.tensors[n].data = bytes[n].data();
  }
  EXPECT_EQ(aclrtSetDevice(0), 0);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_TRUE(Succeeds(call.Prepare(&size, &executor)));
  std::vector<uint8_t> workspace(size);
  EXPECT_TRUE(Succeeds(call.Launch(workspace.data(), size, executor, nullptr)));
  return aclrtSynchronizeStream(nullptr);
}

// A compressed causal mask, all zeros but for the upper triangle if
// `canonical`.
std::vector<uint8_t> Triangle(bool canonical) {
  std::vector<uint8_t> mask(2048 * 2048);
  for (size_t i = 0; canonical && i < 2048; ++i) {
    for (size_t j = i + 1; j < 2048; ++j) mask[i * 2048 + j] = 1;
  }
  return mask;
}

// The forward call with such a mask.
int ForwardWithMask(bool canonical) {
  OperatorCall call = AllOperatorCalls()[kForward];
  constexpr size_t kMask = 6, kSparseMode = 4;
  call.tensors[3].present = false;  // pse
  call.tensors[kMask].dims = {2048, 2048};
  call.integers[kSparseMode] = 3;
  std::vector<std::vector<uint8_t>> bytes(call.tensors.size());
  bytes[kMask] = Triangle(canonical);
  return RunWith(call, bytes);
}

// The same of the third version of prefill.
int PrefillWithMask(bool canonical) {
  std::vector<OperatorCall> calls = AllOperatorCalls();
  OperatorCall& call = *std::ranges::find_if(calls, [](const OperatorCall& c) {
    return std::string_view(c.name) == "aclnnPromptFlashAttentionV3";
  });
  constexpr size_t kMask = 4, kSparseMode = 4;
  call.tensors[kMask].dims = {2048, 2048};
  call.integers[kSparseMode] = 3;
  std::vector<std::vector<uint8_t>> bytes(call.tensors.size());
  bytes[kMask] = Triangle(canonical);
  return RunWith(call, bytes);
}

std::vector<uint8_t> BytesOf(const std::vector<int32_t>& values) {
  const auto* first = reinterpret_cast<const uint8_t*>(values.data());
  return {first, first + values.size() * sizeof(int32_t)};
}

int DecodeWithTable(const std::vector<int32_t>& table) {
  const OperatorCall call = AllOperatorCalls()[kDecode];
  std::vector<std::vector<uint8_t>> bytes(call.tensors.size());
  bytes[12] = BytesOf(table);
  return RunWith(call, bytes);
}

int SparseWithEnds(const std::vector<int32_t>& key_ends) {
  OperatorCall call = AllOperatorCalls()[kSparse];
  // What the NPU takes in size is not the point here.
  call.tensors[8].type = ACL_INT32;
  std::vector<std::vector<uint8_t>> bytes(call.tensors.size());
  bytes[3] = BytesOf(std::vector<int32_t>(6 * 3, -1));
  bytes[8] = BytesOf({3, 6});
  bytes[9] = BytesOf(key_ends);
  return RunWith(call, bytes);
}

// A child, which Strict.TellsOfContents starts.
TEST(StrictChild, DISABLED_Mask) {
  EXPECT_TRUE(Succeeds(ForwardWithMask(true)));
  EXPECT_TRUE(FailsWith(kKernelFailed, ForwardWithMask(false),
                        "attenMaskOptional[0][1]: 0, expected 1"));
  EXPECT_TRUE(Succeeds(PrefillWithMask(true)));
  EXPECT_TRUE(FailsWith(kKernelFailed, PrefillWithMask(false),
                        "attenMask[0][1]: 0, expected 1"));
}

// A child, which Strict.TellsOfContents starts.
TEST(StrictChild, DISABLED_Tables) {
  EXPECT_TRUE(FailsWith(kKernelFailed, DecodeWithTable({0, 4, 1, 2}),
                        "block table[0][1]: page 4"));
}

TEST(Lenient, ComputesWhateverTheContents) {
  EXPECT_TRUE(Succeeds(ForwardWithMask(false)));
  EXPECT_TRUE(Succeeds(PrefillWithMask(false)));
  EXPECT_TRUE(Succeeds(DecodeWithTable({0, 4, -7, 1 << 30})));
  EXPECT_TRUE(Succeeds(SparseWithEnds({-5, 1 << 30})));
}

TEST(Strict, TellsOfContents) {
  for (const char* const name : {"Mask", "Tables"}) {
    const ChildResult child =
        RunChild(std::string("StrictChild.DISABLED_") + name,
                 {{"FLASHACL_STRICT", "1"}});
    EXPECT_TRUE(child.ok()) << child.output;
  }
}

}  // namespace
}  // namespace flashacl::testing
