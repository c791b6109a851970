// SPDX-License-Identifier: Apache-2.0
// What a call costs besides computing: both phases of every operator for a tiny
// problem, on the caller's thread, with handles that exist already. The stream
// computes meanwhile; it is waited for outside of the timing. Target: under 10
// us.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acl/memory.h"
#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

// Zeros from aclrtMalloc.
class DeviceZeros {
 public:
  explicit DeviceZeros(size_t bytes) {
    aclrtMalloc(&data_, bytes + 1, ACL_MEM_MALLOC_NORMAL_ONLY);
    aclrtMemset(data_, bytes + 1, 0, bytes + 1);
  }
  ~DeviceZeros() { aclrtFree(data_); }
  DeviceZeros(const DeviceZeros&) = delete;
  DeviceZeros& operator=(const DeviceZeros&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// A call with memory, and workspace for one run at a time.
class ReadyCall {
 public:
  explicit ReadyCall(OperatorCall call) : call_(std::move(call)) {
    for (TensorArgument& tensor : call_.tensors) {
      const size_t bytes = static_cast<size_t>(tensor.ExtentBytes());
      memory_.push_back(std::make_unique<DeviceZeros>(bytes));
      tensor.data = memory_.back()->data();
    }
    standing_ = std::make_unique<StandingCall>(call_);
  }

  // Both phases; 0 if both succeeded.
  aclnnStatus Run() {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    if (const aclnnStatus status = standing_->Prepare(&size, &executor);
        status != 0) {
      return status;
    }
    if (workspace_ == nullptr) workspace_ = std::make_unique<DeviceZeros>(size);
    return call_.Launch(workspace_->data(), size, executor, nullptr);
  }

 private:
  OperatorCall call_;
  std::unique_ptr<StandingCall> standing_;
  std::vector<std::unique_ptr<DeviceZeros>> memory_;
  std::unique_ptr<DeviceZeros> workspace_;  // the same for every run
};

void TwoPhases(benchmark::State& state, const OperatorCall& of) {
  aclrtSetDevice(0);
  ReadyCall call(of);
  if (call.Run() != 0 || aclrtSynchronizeStream(nullptr) != 0) {
    const char* message = aclGetRecentErrMsg();
    state.SkipWithError(message == nullptr ? "the call failed" : message);
    return;
  }
  constexpr int kCallsAtOnce = 32;
  for (auto _ : state) {
    for (int n = 0; n < kCallsAtOnce; ++n) {
      benchmark::DoNotOptimize(call.Run());
    }
    state.PauseTiming();
    aclrtSynchronizeStream(nullptr);
    state.ResumeTiming();
  }
  state.counters["us/call"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kCallsAtOnce * 1e-6,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// What memcheck adds to a call, and takes the place of in one: 15 tensors and a
// workspace, in blocks of their own among as many as there are.
void UseBlocks(benchmark::State& state) {
  constexpr size_t kOperands = 16, kBytes = 256;
  std::vector<std::byte*> blocks(static_cast<size_t>(state.range(0)));
  for (std::byte*& block : blocks) {
    block = acl::AllocateBlock({.size = kBytes, .reserved = kBytes});
  }
  std::vector<acl::ByteRange> ranges;
  for (size_t n = 0; n < kOperands; ++n) {
    ranges.push_back({blocks[n * (blocks.size() / kOperands)], kBytes});
  }
  size_t outside = 0;
  for (auto _ : state) {
    const acl::BlockUse use(ranges,
                            [&](size_t, acl::Placement at, const acl::Block*) {
                              outside += at == acl::Placement::kInside ? 0 : 1;
                            });
    benchmark::DoNotOptimize(&use);
  }
  if (outside > 0) state.SkipWithError("a range is outside of its block");
  for (std::byte* block : blocks) {
    acl::FreeBlock(block, acl::BlockKind::kDevice);
  }
}
BENCHMARK(UseBlocks)->Arg(16)->Arg(1000)->Arg(100000);

const int kRegistered = [] {
  for (const OperatorCall& call : AllOperatorCalls()) {
    const std::string name = std::string("TwoPhases/") + call.name;
    benchmark::RegisterBenchmark(
        name.c_str(),
        [call](benchmark::State& state) { TwoPhases(state, call); })
        ->UseRealTime()
        ->Repetitions(5)
        ->ReportAggregatesOnly();
  }
  return 0;
}();

}  // namespace
}  // namespace flashacl::testing
