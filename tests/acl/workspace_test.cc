// SPDX-License-Identifier: Apache-2.0
// Phase two of every operator and its workspace: too small a one is refused,
// one of exactly the reported size is enough wherever it starts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "acl/backend.h"
#include "backends.h"
#include "tests/testing/around_reference.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/fenced.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

// A workspace of any alignment, among bytes that nobody may write.
class OddWorkspace {
 public:
  // Starts `shift` bytes after a multiple of 64, of which it has as many bytes.
  OddWorkspace(uint64_t bytes, int64_t shift)
      : memory_(static_cast<int64_t>(bytes) + 2 * 64 - shift),
        data_(memory_.data() + 64),
        bytes_(bytes) {}

  std::byte* data() const { return data_; }

  void ExpectNothingAround() const {
    const auto untouched = [](std::span<const std::byte> bytes) {
      return std::ranges::all_of(
          bytes, [](std::byte one) { return one == std::byte{0xFF}; });
    };
    EXPECT_TRUE(untouched(memory_.span().first(64)));
    EXPECT_TRUE(untouched(memory_.span().subspan(64 + bytes_)));
  }

 private:
  FencedBytes memory_;
  std::byte* data_;
  uint64_t bytes_;
};

// Uses every byte that it has reserved.
Status WriteAll(const ReferenceRun& run) {
  std::fill_n(run.workspace, run.workspace_bytes, std::byte{0xEE});
  return run.Do();
}

const Implementation kWritesAll{"test/writes all", kReference.supports,
                                kAroundReference<WriteAll>};

// Calls of all operators that need workspace, on a backend and with tensors of
// their own.
class WorkspaceTest : public RuntimeTest {
 protected:
  void TearDown() override {
    RuntimeTest::TearDown();
    acl::UseBackend(nullptr);
  }

  template <typename Check>
  void ForAllCalls(Check check) {
    for (OperatorCall call : AllOperatorCalls()) {
      SCOPED_TRACE(call.name);
      if (NeedsNone(call)) continue;
      Random random(1);
      std::vector<std::vector<uint8_t>> contents;
      for (TensorArgument& tensor : call.tensors) {
        contents.push_back(Contents(tensor, random));
        tensor.data = contents.back().data();
      }
      check(call);
    }
  }

  static bool NeedsNone(const OperatorCall& call) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT_TRUE(Succeeds(call.Prepare(&size, &executor)));
    EXPECT_TRUE(Succeeds(aclDestroyAclOpExecutor(executor)));
    return size == 0;
  }

  // Phase one.
  static aclOpExecutor* Prepared(const OperatorCall& call, uint64_t* size) {
    aclOpExecutor* executor = nullptr;
    EXPECT_TRUE(Succeeds(call.Prepare(size, &executor)));
    EXPECT_GT(*size, 0u);
    return executor;
  }

  void ExpectReportedIsEnough(const OperatorCall& call) {
    for (const int64_t shift : {1, 32, 63, 64}) {
      uint64_t size = 0;
      aclOpExecutor* const executor = Prepared(call, &size);
      ASSERT_EQ(size % 64, 0u);
      const OddWorkspace workspace(size, shift);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace.data()) % 64,
                static_cast<uintptr_t>(shift % 64));
      EXPECT_TRUE(
          Succeeds(call.Launch(workspace.data(), size, executor, nullptr)));
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
      workspace.ExpectNothingAround();
    }
  }
};

TEST_F(WorkspaceTest, LessThanReportedIsRefused) {
  ForAllCalls([](const OperatorCall& call) {
    uint64_t size = 0;
    aclOpExecutor* executor = Prepared(call, &size);
    std::vector<std::byte> workspace(size);
    for (const uint64_t given : {size - 1, uint64_t{0}}) {
      EXPECT_TRUE(FailsWith(
          161002, call.Launch(workspace.data(), given, executor, nullptr),
          "workspaceSize " + std::to_string(given)));
      executor = Prepared(call, &size);
    }
    EXPECT_TRUE(FailsWith(161001, call.Launch(nullptr, size, executor, nullptr),
                          "workspace is a NULL pointer"));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  });
}

TEST_F(WorkspaceTest, ReportedIsEnough) {
  ForAllCalls(
      [this](const OperatorCall& call) { ExpectReportedIsEnough(call); });
}

// Some memory is only for problems of other sizes, or of other lengths; here
// someone writes all of it.
TEST_F(WorkspaceTest, ReportedHoldsAllThatIsReserved) {
  Backend backend = CpuBackend();
  backend.implementations = {&kWritesAll, 1};
  acl::UseBackend(&backend);
  ForAllCalls(
      [this](const OperatorCall& call) { ExpectReportedIsEnough(call); });
}

}  // namespace
}  // namespace flashacl::testing
