// SPDX-License-Identifier: Apache-2.0
// Runs of implementations, whose tiles allocate nothing: what a run derives
// from its lengths is in memory that its thread keeps.
#include <gtest/gtest.h>

#include <new>
#include <thread>
#include <vector>

#include "cpu/implementations.h"
#include "cpu/thread_pool.h"
#include "plan/host_queue.h"
#include "plan/implementation.h"
#include "problem/attention_problem.h"
#include "problem/notation.h"
#include "tests/faults/injector.h"
#include "tests/faults/watchdog.h"
#include "tests/testing/small_case.h"

namespace flashacl::testing {
namespace {

struct Line {
  const Implementation* implementation;
  const char* text;
};

// Several tiles, splits, stages, heads that share sums, biases that several
// tiles add to; lengths on the device.
const Line kLines[] = {
    {&kCpuForward, "fwd f16 h=4/2 d=64 q=300,7 k=300,200 causal stats"},
    {&kCpuForward, "fwd f32 h=2 d=32 q=2x90 k=2x90 counts:qk mask"},
    {&kCpuForward, "fwd f32 h=1 d=16 q=20 k=5000 sink"},
    {&kCpuDecode, "fwd f16 h=8/2 d=128 q=3x1 k=100,5000,48"},
    {&kCpuDecode, "fwd bf16 h=4 d=64 q=2x1 k=2x300 paged:16 counts:k"},
    {&kCpuMixed, "fwd f16 h=8/2 d=64 q=100,3x1 k=200,100,5000,48 causal"},
    {&kCpuMixed, "fwd bf16 h=4 d=64 q=2x90 k=2x3000 paged:16 counts:qk"},
    {&kCpuBackward, "bwd f32 h=2 d=8 q=900 k=300"},
    {&kCpuBackward,
     "bwd bf16 h=7 d=24/16 q=300,600,9 k=400,500,90 causal sink"},
    {&kCpuBackward, "bwd f32 h=2 d=8 q=300 k=300 bias"},
    {&kCpuBackward, "bwd bf16 h=2/1 d=1+1 q=65 k=44500 window:40000:9 sink"},
    {&kCpuTopKDecode, "fwd f16 h=8/1 d=32 q=3,4 k=70,5000 topk:4500 stats"},
    {&kCpuTopKForward, "fwd f16 h=16/1 d=32 q=3,4 k=70,300 topk:150 stats"},
    {&kCpuTopKBackward, "bwd f16 h=16/1 d=32 q=90,40 k=70,300 topk:150"},
};

// A plan with its memory, run on a pool of 3.
class Subject {
 public:
  explicit Subject(const Line& line) : case_(Problem(line)), queue_(pool_) {
    Random random(7);
    case_.FillInputs(random);
    DeviceInfo device;
    device.workers = pool_.count();
    WorkspaceLayout layout;
    prepared_ = line.implementation->prepare(case_.problem(), device, layout);
    workspace_.resize(static_cast<size_t>(layout.bytes()) + 64);
  }

  Status Run() {
    const auto at = reinterpret_cast<uintptr_t>(workspace_.data());
    return prepared_->Run(case_.bindings(),
                          workspace_.data() + (64 - at % 64) % 64, queue_);
  }

 private:
  static AttentionProblem Problem(const Line& line) {
    const Result<AttentionProblem> problem = Parse(line.text);
    EXPECT_TRUE(problem.ok()) << problem.status().message();
    EXPECT_TRUE(line.implementation->supports(*problem, {}).ok());
    return *problem;
  }

  SmallCase case_;
  cpu::Pool pool_{3};
  HostQueue queue_;
  std::shared_ptr<const Prepared> prepared_;
  std::vector<std::byte> workspace_;
};

TEST(Launch, AllocatesNothingAfterItsFirstRun) {
  for (const Line& line : kLines) {
    SCOPED_TRACE(line.text);
    Subject subject(line);
    for (int n = 0; n < 2; ++n) EXPECT_TRUE(subject.Run().ok());
    const Injected counted(Fault::kAllocation, 0, false);
    EXPECT_TRUE(subject.Run().ok());
    EXPECT_EQ(counted.seen(), 0);
  }
}

// Phase 1 of every call includes this check, which must not be felt.
TEST(CheckProblem, AllocatesNothing) {
  const Result<AttentionProblem> problem =
      Parse("bwd bf16 h=32/8 d=128+64 q=64x512 k=64x512 causal mask bias sink");
  ASSERT_TRUE(problem.ok());
  const Injected counted(Fault::kAllocation, 0, false);
  EXPECT_TRUE(CheckProblem(*problem).ok());
  EXPECT_EQ(counted.seen(), 0);
}

// On threads that never ran anything: each allocation fails in turn.
TEST(Launch, EndsWhateverAllocationFails) {
  for (const Line& line : kLines) {
    for (int64_t n = 1;; ++n) {
      const std::string what = Str("{}: allocation {}", line.text, n);
      SCOPED_TRACE(what);
      const Watched watched(what);
      Subject subject(line);
      bool ran = false;
      int64_t failed = 0;
      std::thread([&] {
        const Injected injected(Fault::kAllocation, n, false);
        try {
          ran = subject.Run().ok();
        } catch (const std::bad_alloc&) {
          // What the runtime makes an error of.
        }
        failed = injected.failed();
      }).join();
      EXPECT_TRUE(subject.Run().ok()) << "the next run";
      if (failed > 0) continue;
      EXPECT_TRUE(ran);
      break;
    }
  }
}

}  // namespace
}  // namespace flashacl::testing
