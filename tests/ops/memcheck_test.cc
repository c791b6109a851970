// SPDX-License-Identifier: Apache-2.0
// No operator starts with memory that ends too early: of every operator each
// tensor in turn lies across one end of its block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "ops/operators.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

constexpr size_t kForward = 0, kContract = 5;
constexpr size_t kKey = 1;
// No block has so many bytes after those that were asked for.
constexpr size_t kPadding = 64;

class MemcheckTest : public RuntimeTest {};

// Of the n-th tensor that is passed, as messages have it; "" if nobody looks.
std::string NameOf(const OperatorCall& call, size_t n) {
  for (const acl::Operator* op : ops::AllOperators()) {
    if (op->name != call.name) continue;
    for (const acl::Argument& row : op->arguments) {
      if (row.need == acl::Need::kAbsent || n-- > 0) continue;
      if (row.need == acl::Need::kIgnored) return "";
      return Str("{}{}", row.name, row.list ? "[0]" : "");
    }
  }
  return "no such argument";
}

size_t BytesOf(const TensorArgument& tensor) {
  return static_cast<size_t>(tensor.ExtentBytes());
}

// A call whose tensors have blocks of just their bytes, all zeros.
class CallInMemory {
 public:
  explicit CallInMemory(const OperatorCall& of) : call(of) {
    for (TensorArgument& tensor : call.tensors) {
      const size_t bytes = std::max<size_t>(BytesOf(tensor), 1);
      blocks_.push_back(std::make_unique<DeviceBytes>(bytes - 1));
      blocks_.back()->Upload(std::vector<uint8_t>(bytes));
      tensor.data = blocks_.back()->data();
    }
  }

  // Both phases, with a workspace of its own, or at `scratch`.
  aclnnStatus Run(void* scratch = nullptr) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT_TRUE(Succeeds(call.Prepare(&size, &executor)));
    return Launch(size, executor, scratch);
  }

  aclnnStatus Launch(uint64_t size, aclOpExecutor* executor, void* scratch) {
    const DeviceBytes own(size);
    const aclnnStatus status = call.Launch(
        scratch == nullptr ? own.data() : scratch, size, executor, nullptr);
    message_ = Message();
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
    return status;
  }

  ::testing::AssertionResult Runs(aclnnStatus status) const {
    if (status == 0) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << status << " " << message_;
  }

  // The message names the argument, its bytes and its address.
  ::testing::AssertionResult Refuses(aclnnStatus status,
                                     const std::string& name,
                                     const TensorArgument& tensor,
                                     const std::string& why) const {
    const std::string where =
        Str(" bytes at {}, {}",
            static_cast<const void*>(static_cast<const uint8_t*>(tensor.data) +
                                     tensor.offset *
                                         int64_t(aclDataTypeSize(tensor.type))),
            why);
    const bool said = message_.find(name + ": needs ") != std::string::npos &&
                      message_.find(where) != std::string::npos;
    if (status == 161002 && said) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << status << " " << message_ << "\ninstead of 161002 " << name
           << ": needs ..." << where;
  }

  OperatorCall call;

 private:
  std::vector<std::unique_ptr<DeviceBytes>> blocks_;
  std::string message_;
};

// By the version, or by this call.
bool IsIgnored(const OperatorCall& call, const std::string& name) {
  const bool batched =
      std::string_view(call.name) == "aclnnRingAttentionUpdate";
  return name.empty() || (batched && name == "actualSeqQlenOptional");
}

// How many places there were that a tensor must not lie at.
int ExpectEachRefused(const OperatorCall& good) {
  SCOPED_TRACE(ToString(good));
  CallInMemory made(good);
  EXPECT_TRUE(made.Runs(made.Run()));
  int places = 0;
  for (size_t n = 0; n < good.tensors.size(); ++n) {
    TensorArgument& tensor = made.call.tensors[n];
    if (!tensor.present || BytesOf(tensor) == 0) continue;
    auto* const block = static_cast<uint8_t*>(tensor.data);
    const std::string name = NameOf(good, n);
    if (IsIgnored(good, name)) continue;
    // Across the end; and where the padding ends.
    for (const size_t at : {kPadding, BytesOf(tensor) + kPadding}) {
      tensor.data = block + at;
      EXPECT_TRUE(made.Refuses(made.Run(), name, tensor, "its block of "));
      ++places;
    }
    if (BytesOf(tensor) <= 8) {
      tensor.data = block;
      continue;
    }
    tensor.data = block - 8;  // where the heap has its own
    EXPECT_TRUE(made.Refuses(made.Run(), name, tensor, "which no block holds"));
    tensor.data = block;
    ++places;
  }
  EXPECT_TRUE(made.Runs(made.Run()));
  return places;
}

TEST_F(MemcheckTest, EveryTensorOfEveryOperatorLiesInsideItsBlock) {
  const std::vector<OperatorCall> calls = AllOperatorCalls();
  for (size_t n = 0; n < calls.size(); ++n) {
    const int places = ExpectEachRefused(calls[n]);
    EXPECT_GE(places, n < kContract ? 12 : 2) << calls[n].name;
  }
}

TEST_F(MemcheckTest, TypesThatAttentionDoesNotHaveCount) {
  for (const OperatorCall& call : testing::OperatorCallsOfOtherTypes()) {
    EXPECT_GE(ExpectEachRefused(call), 6) << call.name;
  }
}

TEST_F(MemcheckTest, StridesAndOffsetCount) {
  OperatorCall call = AllOperatorCalls()[kForward];
  TensorArgument& query = call.tensors[0];
  ASSERT_EQ(query.dims.size(), 3u);
  const int64_t row = query.dims[1] * query.dims[2];
  query.strides = {row + 8, query.dims[2], 1};
  query.offset = 16;
  CallInMemory made(call);
  EXPECT_TRUE(made.Runs(made.Run()));
  // The same elements next to each other would have room.
  const DeviceBytes small(static_cast<size_t>(query.dims[0] * row) *
                          sizeof(uint16_t));
  TensorArgument& moved = made.call.tensors[0];
  moved.data = small.data();
  EXPECT_TRUE(made.Refuses(made.Run(), "query", moved, "its block of "));
}

TEST_F(MemcheckTest, EveryEntryOfAListCounts) {
  std::vector<OperatorCall> calls = AllOperatorCalls();
  OperatorCall& call = *std::ranges::find_if(calls, [](const auto& c) {
    return std::string_view(c.name) == "aclnnIncreFlashAttention";
  });
  for (size_t n : {kKey, kKey + 1}) {
    ASSERT_EQ(call.tensors[n].dims[0], 2);
    call.tensors[n].dims[0] = 1;
    call.tensors[n].members = 2;
  }
  CallInMemory made(call);
  EXPECT_TRUE(made.Runs(made.Run()));
  TensorArgument entry = made.call.tensors[kKey];
  entry.data = static_cast<uint8_t*>(entry.data) + kPadding;
  for (const size_t member : {size_t{0}, size_t{1}}) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_TRUE(Succeeds(made.call.Prepare(&size, &executor)));
    aclTensorList* const any = aclCreateTensorList(nullptr, 0);
    ASSERT_TRUE(Succeeds(
        aclSetDynamicInputTensorAddr(executor, kKey, member, any, entry.data)));
    aclDestroyTensorList(any);
    EXPECT_TRUE(made.Refuses(made.Launch(size, executor, nullptr),
                             Str("key[{}]", member), entry, "its block of "));
  }
}

TEST_F(MemcheckTest, TheWorkspaceCounts) {
  const OperatorCall call = AllOperatorCalls()[kForward];
  CallInMemory made(call);
  const DeviceBytes small(0);
  const TensorArgument scratch{.dims = {1}, .data = small.data()};
  EXPECT_TRUE(made.Refuses(made.Run(small.data()), "workspace", scratch,
                           "its block of 1 bytes ends before"));
}

TEST_F(MemcheckTest, MemoryOfNobodyIsAsLongAsTheCallerSays) {
  const OperatorCall good = AllOperatorCalls()[kForward];
  CallInMemory made(good);
  std::vector<uint8_t> host(BytesOf(good.tensors[0]));
  made.call.tensors[0].data = host.data();
  EXPECT_TRUE(made.Runs(made.Run()));
  void* pinned = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&pinned, host.size())));
  made.call.tensors[0].data = pinned;
  EXPECT_TRUE(made.Runs(made.Run()));
  made.call.tensors[0].data = static_cast<uint8_t*>(pinned) + kPadding;
  EXPECT_TRUE(
      made.Refuses(made.Run(), "query", made.call.tensors[0], "its block of "));
  EXPECT_TRUE(Succeeds(aclrtFreeHost(pinned)));
}

TEST_F(MemcheckTest, WhatIsRefusedChangesNothing) {
  const OperatorCall good = AllOperatorCalls()[kForward];
  CallInMemory made(good);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_TRUE(Succeeds(made.call.Prepare(&size, &executor)));
  ASSERT_TRUE(Succeeds(aclSetAclOpExecutorRepeatable(executor)));
  void* const data = made.call.tensors[0].data;
  const auto launch_at = [&](void* at) {
    aclTensor* const handle =
        aclCreateTensor(good.tensors[0].dims.data(), 3, ACL_FLOAT16, nullptr, 0,
                        ACL_FORMAT_ND, good.tensors[0].dims.data(), 3, at);
    EXPECT_TRUE(Succeeds(aclSetInputTensorAddr(executor, 0, handle, at)));
    aclDestroyTensor(handle);
    return made.Launch(size, executor, nullptr);
  };
  EXPECT_EQ(launch_at(static_cast<uint8_t*>(data) + kPadding), 161002);
  EXPECT_TRUE(made.Runs(launch_at(data)));
  EXPECT_TRUE(Succeeds(aclDestroyAclOpExecutor(executor)));
}

}  // namespace
}  // namespace flashacl::testing
