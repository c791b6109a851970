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

#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

// A call with memory, and workspace for one run at a time.
class ReadyCall {
 public:
  explicit ReadyCall(OperatorCall call) : call_(std::move(call)) {
    for (TensorArgument& tensor : call_.tensors) {
      const size_t bytes = static_cast<size_t>(tensor.ExtentBytes());
      memory_.push_back(std::make_unique<uint8_t[]>(bytes + 1));
      tensor.data = memory_.back().get();
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
    if (workspace_.size() < size) workspace_.resize(size);
    return call_.Launch(workspace_.data(), size, executor, nullptr);
  }

 private:
  OperatorCall call_;
  std::unique_ptr<StandingCall> standing_;
  std::vector<std::unique_ptr<uint8_t[]>> memory_;
  std::vector<uint8_t> workspace_;
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
