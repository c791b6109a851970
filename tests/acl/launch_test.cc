// SPDX-License-Identifier: Apache-2.0
// Phase two of every operator is the same function; executor_test.cc shows the
// rest of it.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "acl/backend.h"
#include "acl/executor.h"
#include "acl/memory.h"
#include "acl/stream.h"
#include "backends.h"
#include "tests/testing/around_reference.h"
#include "tests/testing/runtime.h"
#include "tests/testing/tiny_operator.h"

namespace flashacl::acl {
namespace {

using testing::FailsWith;
using testing::Message;
using testing::ReferenceRun;
using testing::Succeeds;
using testing::TinyCall;

TEST(Launch, TakesLiveExecutorsOnly) {
  EXPECT_TRUE(FailsWith(161001, Launch(nullptr, 0, nullptr, nullptr),
                        "executor cannot be nullptr"));
  int none = 0;
  EXPECT_TRUE(FailsWith(
      561000,
      Launch(nullptr, 0, reinterpret_cast<aclOpExecutor*>(&none), nullptr),
      "not a live aclOpExecutor"));
}

// Where runs were, and which of them fail.
std::atomic<int> runs{0};
std::atomic<bool> fails{false};
std::atomic<std::thread::id> where{};

Status Run(const ReferenceRun& run) {
  ++runs;
  where = std::this_thread::get_id();
  if (fails) return RuntimeFailure("as asked");
  return run.Do();
}

// Computes 1e6 multiply-adds in a microsecond, or nobody knows how many.
const Implementation kFast{"test/fast", kReference.supports,
                           testing::kAroundReference<Run, 2000>};
const Implementation kUnknown{"test/unknown", kReference.supports,
                              testing::kAroundReference<Run>};

class WhereLaunchRuns : public ::testing::Test {
 protected:
  WhereLaunchRuns() { Use(kFast); }
  ~WhereLaunchRuns() override {
    fails = false;
    UseBackend(nullptr);
  }

  void Use(const Implementation& implementation) {
    backend_ = CpuBackend();
    backend_.implementations = {&implementation, 1};
    UseBackend(&backend_);
  }

  // The stream's thread is there, and has nothing to do.
  void Warm() {
    EXPECT_TRUE(Succeeds(Enqueue(
        nullptr, [] { return 0; }, "test")));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
    runs = 0;
  }

  aclnnStatus Call() {
    EXPECT_TRUE(Succeeds(call_.Prepare()));
    workspace_.resize(call_.workspace_size);
    return Launch(workspace_.data(), workspace_.size(), call_.executor,
                  nullptr);
  }

  void ExpectAnswer() {
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
    for (int64_t n = 0; n < call_.elements(); ++n) {
      ASSERT_EQ(call_.out_data[n], 2.5f) << n;
    }
  }

  static bool WasHere() { return where.load() == std::this_thread::get_id(); }

  Backend backend_;
  TinyCall call_{3};
  std::vector<char> workspace_;
};

TEST_F(WhereLaunchRuns, OnTheCallerIfItIsShort) {
  call_.SetValue(2.5f);
  Warm();
  EXPECT_TRUE(Succeeds(Call()));
  EXPECT_TRUE(WasHere());
  EXPECT_EQ(runs, 1);
  ExpectAnswer();
}

TEST_F(WhereLaunchRuns, OnItsStreamIfNobodyKnowsHowLong) {
  call_.SetValue(2.5f);
  Use(kUnknown);
  Warm();
  EXPECT_TRUE(Succeeds(Call()));
  ExpectAnswer();
  EXPECT_FALSE(WasHere());
}

// 0.5 GFLOP: 268 microseconds.
TEST_F(WhereLaunchRuns, OnItsStreamIfItIsLong) {
  TinyCall longer(1 << 10, 64, 1 << 11);
  Warm();
  EXPECT_TRUE(Succeeds(longer.Prepare()));
  std::vector<char> workspace(longer.workspace_size);
  fails = true;  // the reference would take its time
  EXPECT_TRUE(Succeeds(
      Launch(workspace.data(), workspace.size(), longer.executor, nullptr)));
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(nullptr), "as asked"));
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(WasHere());
}

struct Waited {
  std::atomic<bool> may_end{false};
  std::atomic<bool> ended{false};
};

// A function of the program's that waits for the thread that launches.
TEST_F(WhereLaunchRuns, OnItsStreamAfterWhatWaitsForTheCaller) {
  call_.SetValue(2.5f);
  Warm();
  Waited waited;
  const auto wait = [](void* at) {
    auto& waits = *static_cast<Waited*>(at);
    while (!waits.may_end) std::this_thread::yield();
    waits.ended = true;
  };
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(nullptr, wait, &waited)));
  EXPECT_TRUE(Succeeds(Call()));
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(waited.ended);
  waited.may_end = true;
  ExpectAnswer();
  EXPECT_TRUE(waited.ended);
  EXPECT_FALSE(WasHere());
}

std::atomic<std::thread::id> told{};

// It fails as it would have on the stream: later, with the message of who
// synchronises, and the program is told on a thread of the runtime's.
TEST_F(WhereLaunchRuns, FailuresAreTheStreams) {
  Warm();
  fails = true;
  (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);  // of another test
  told = std::this_thread::get_id();
  aclrtSetExceptionInfoCallback(
      [](aclrtExceptionInfo*) { told = std::this_thread::get_id(); });
  EXPECT_EQ(Call(), 0);
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
  EXPECT_TRUE(FailsWith(507015, aclrtSynchronizeStream(nullptr), "as asked"));
  EXPECT_EQ(runs, 2);  // here, and there for the record
  EXPECT_NE(told.load(), std::this_thread::get_id());
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
  aclrtSetExceptionInfoCallback(nullptr);
}

// Of memory that is freed meanwhile, work that is over holds none.
TEST_F(WhereLaunchRuns, HoldsNothingAfterwards) {
  Warm();
  void* memory = nullptr;
  EXPECT_TRUE(Succeeds(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY)));
  EXPECT_TRUE(Succeeds(call_.Prepare()));
  aclSetAclOpExecutorRepeatable(call_.executor);
  workspace_.resize(call_.workspace_size);
  aclSetInputTensorAddr(call_.executor, 0, call_.query, memory);
  EXPECT_TRUE(Succeeds(
      Launch(workspace_.data(), workspace_.size(), call_.executor, nullptr)));
  EXPECT_TRUE(WasHere());
  EXPECT_FALSE(IsBlockUsed(memory));
  EXPECT_TRUE(Succeeds(aclrtFree(memory)));
  EXPECT_TRUE(Succeeds(aclDestroyAclOpExecutor(call_.executor)));
}

}  // namespace
}  // namespace flashacl::acl
