// SPDX-License-Identifier: Apache-2.0
// Strict mode tells what the answer does not need: contents of masks, tables
// and lists. Each case is a process of its own, for the environment is read
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/token_advice.h"
#include "tests/testing/child.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/fused_infer_call.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

constexpr size_t kForward = 0, kDecode = 3, kSparse = 4;
constexpr int kKernelFailed = 507015;

// Runs a call whose tensors hold `bytes`; what synchronising says.
int RunWith(OperatorCall call, std::vector<std::vector<uint8_t>>& bytes) {
  EXPECT_EQ(aclrtSetDevice(0), 0);
  std::vector<std::unique_ptr<DeviceBytes>> memory;
  for (size_t n = 0; n < call.tensors.size(); ++n) {
    bytes[n].resize(static_cast<size_t>(call.tensors[n].ExtentBytes()) + 1);
    memory.push_back(std::make_unique<DeviceBytes>(bytes[n].size()));
    memory.back()->Upload(bytes[n]);
    call.tensors[n].data = memory.back()->data();
  }
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_TRUE(Succeeds(call.Prepare(&size, &executor)));
  const DeviceBytes workspace(size);
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

// The same of operators of inference, where mask and mode have these places.
int InferWithMask(OperatorCall call, bool canonical) {
  constexpr size_t kMask = 4, kSparseMode = 4;
  call.tensors[kMask] = {.dims = {2048, 2048}, .type = ACL_BOOL};
  call.integers[kSparseMode] = 3;
  std::vector<std::vector<uint8_t>> bytes(call.tensors.size());
  bytes[kMask] = Triangle(canonical);
  return RunWith(call, bytes);
}

int PrefillWithMask(bool canonical) {
  std::vector<OperatorCall> calls = AllOperatorCalls();
  return InferWithMask(
      *std::ranges::find_if(calls,
                            [](const OperatorCall& c) {
                              return std::string_view(c.name) ==
                                     "aclnnPromptFlashAttentionV3";
                            }),
      canonical);
}

int FusedInferWithMask(bool canonical) {
  return InferWithMask(FusedInferCall().AsData(), canonical);
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
  EXPECT_TRUE(Succeeds(FusedInferWithMask(true)));
  EXPECT_TRUE(FailsWith(kKernelFailed, FusedInferWithMask(false),
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
  EXPECT_TRUE(Succeeds(FusedInferWithMask(false)));
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

// A forward call of 6 queries and 8 keys without optional tensors.
OperatorCall PlainForward() {
  OperatorCall call = AllOperatorCalls()[kForward];
  for (size_t n = 3; n < call.first_output; ++n) {
    call.tensors[n].present = false;
  }
  return call;
}

// A child, which Strict.Advises starts.
TEST(StrictChild, DISABLED_Advice) {
  OperatorCall call = PlainForward();
  std::vector<std::vector<uint8_t>> bytes(call.tensors.size());
  EXPECT_TRUE(Succeeds(RunWith(call, bytes)));
  call.arrays[1] = {2, 4};
  call.arrays[2] = {2, 6};
  call.integers[0] = 1;
  EXPECT_TRUE(Succeeds(RunWith(call, bytes)));
  EXPECT_TRUE(Succeeds(RunWith(call, bytes)));
  call.arrays[1] = {2, 5};
  EXPECT_TRUE(Succeeds(RunWith(call, bytes)));
  call.arrays[1] = {3, 1, 2};
  call.arrays[2] = {5, 1, 2};
  EXPECT_TRUE(Succeeds(RunWith(call, bytes)));
  call.reals[0] = std::nan("");
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_TRUE(FailsWith(161002, call.Prepare(&size, &executor), "scaleValue"));
}

// A child, which Strict.SaysNothingOfWhatIsMeant starts.
TEST(StrictChild, DISABLED_Meant) {
  constexpr size_t kKeepProb = 1;
  OperatorCall call = PlainForward();
  std::vector<std::vector<uint8_t>> bytes(call.tensors.size());
  call.reals[kKeepProb] = 1;
  // The same as ends and as lengths.
  call.arrays[1] = {6, 0};
  call.arrays[2] = {8, 0};
  EXPECT_TRUE(Succeeds(RunWith(call, bytes)));
}

// A child, which Strict.AdvisesOnTokens starts.
TEST(StrictChild, DISABLED_Tokens) {
  const ops::GivenTokens open{"pre", "next", 100, 100, 1, true, 100};
  for (const int64_t mode : {0, 4, 7, 8}) {
    ops::GivenTokens heeded = open;
    heeded.sparse_mode = mode;
    heeded.pre = heeded.next = 5;
    ops::AdviseOnTokens(heeded);
  }
  ops::AdviseOnTokens(open);
  ops::GivenTokens causal = open;
  causal.sparse_mode = 3;
  causal.next = 0;
  ops::AdviseOnTokens(causal);
  causal.pre = 77;
  ops::AdviseOnTokens(causal);
  ops::GivenTokens all = open;
  all.next = 88;
  ops::AdviseOnTokens(all);
  all.has_mask = false;
  all.sparse_mode = 0;
  all.next = 99;
  ops::AdviseOnTokens(all);
}

TEST(Strict, AdvisesOnTokens) {
  const ChildResult child =
      RunChild("StrictChild.DISABLED_Tokens", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
  int lines = 0;
  for (size_t at = 0; (at = child.output.find("hides nothing", at + 1)) !=
                      std::string::npos;) {
    ++lines;
  }
  EXPECT_EQ(lines, 3) << child.output;
  for (const char* words :
       {"pre: 77 hides nothing: sparse mode 3 ignores it",
        "next: 88 hides nothing: sparse mode 1 ignores it",
        "next: 99 hides nothing: it is ignored without a mask"}) {
    EXPECT_NE(child.output.find(words), std::string::npos) << child.output;
  }
}

TEST(Strict, Advises) {
  const ChildResult child =
      RunChild("StrictChild.DISABLED_Advice", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
  for (const char* const words :
       {"query lengths 2, 4 are read as ends of sequences, and leave rows 4 "
        "to 5 to none; as ends they would be 2, 6",
        "key lengths 2, 6 are read as ends of sequences, and leave rows 6 to 7 "
        "to none; as ends they would be 2, 8",
        "query rows 5 to 5 belong to no sequence: the last one ends at 5",
        "actualSeqQLenOptional: 3, 1, 2 are read as ends of sequences, which "
        "then have 3, 0, 1 of 6 rows; as ends they would be 3, 4, 6",
        "actualSeqKvLenOptional: 5, 1, 2 are read as ends of sequences, which "
        "then have 5, 0, 1 of 8 rows; as ends they would be 5, 6, 8",
        "keepProbOptional: 0.9 drops nothing: it is ignored without "
        "dropMaskOptional",
        ": 1 hides nothing: it is ignored without a mask"}) {
    const size_t first = child.output.find(words);
    EXPECT_NE(first, std::string::npos) << words << "\n" << child.output;
    EXPECT_EQ(child.output.find(words, first + 1), std::string::npos)
        << "told twice: " << words;
  }
}

TEST(Strict, SaysNothingOfWhatIsMeant) {
  const ChildResult child =
      RunChild("StrictChild.DISABLED_Meant", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
  for (const char* const words : {"read as ends", "drops nothing"}) {
    EXPECT_EQ(child.output.find(words), std::string::npos) << child.output;
  }
}

}  // namespace
}  // namespace flashacl::testing
