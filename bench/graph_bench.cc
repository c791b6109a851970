// SPDX-License-Identifier: Apache-2.0
// What a graph saves: 100 launches of a decode step, called one by one through
// both phases, or captured once and replayed. The streams compute in both; the
// answers are compared before anything is timed. Target: a replay costs less
// than half of the calls where the work itself is small.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

constexpr int kLaunches = 100;
constexpr uint8_t kAnyNumber = 0x2C;  // twice: an fp16 number of 0.065

// One call with its memory, launched again and again.
class Decode {
 public:
  explicit Decode(OperatorCall call) : call_(std::move(call)) {
    for (TensorArgument& tensor : call_.tensors) {
      const size_t bytes = static_cast<size_t>(tensor.ExtentBytes());
      const bool halves = tensor.type == ACL_FLOAT16;
      memory_.emplace_back(bytes, halves ? kAnyNumber : uint8_t{0});
      tensor.data = memory_.back().data();
    }
    standing_ = std::make_unique<StandingCall>(call_);
  }

  bool LaunchAll(aclrtStream stream) {
    for (int n = 0; n < kLaunches; ++n) {
      uint64_t size = 0;
      aclOpExecutor* executor = nullptr;
      if (standing_->Prepare(&size, &executor) != 0) return false;
      if (workspace_.size() < size) workspace_.resize(size);
      if (call_.Launch(workspace_.data(), size, executor, stream) != 0) {
        return false;
      }
    }
    return true;
  }
  // So that an answer that was there already does not pass for a replay's.
  void ClearOutputs() {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (!call_.IsOutput(i)) continue;
      std::fill(memory_[i].begin(), memory_[i].end(), uint8_t{0xA5});
    }
  }
  const std::vector<std::vector<uint8_t>>& memory() const { return memory_; }

 private:
  OperatorCall call_;
  std::unique_ptr<StandingCall> standing_;
  std::vector<std::vector<uint8_t>> memory_;
  std::vector<uint8_t> workspace_;
};

// One step of two heads of 16 channels over 20 keys in pages of 16: what is
// called costs more than what is computed.
OperatorCall DecodeCall() {
  for (OperatorCall& call : AllOperatorCalls()) {
    if (std::string(call.name) != "aclnnIncreFlashAttentionV4") continue;
    for (TensorArgument& tensor : call.tensors) tensor.present = false;
    const auto give = [&](size_t row, std::vector<int64_t> dims,
                          aclDataType type) {
      TensorArgument& tensor = call.tensors[row];
      tensor.present = true;
      tensor.dims = std::move(dims);
      tensor.type = type;
    };
    give(0, {1, 2, 1, 16}, ACL_FLOAT16);   // query
    give(1, {2, 16, 16}, ACL_FLOAT16);     // key, in pages
    give(2, {2, 16, 16}, ACL_FLOAT16);     // value, in pages
    give(12, {1, 2}, ACL_INT32);           // block table
    give(14, {1, 2, 1, 16}, ACL_FLOAT16);  // attentionOut
    // Not assigned a list: GCC 14 takes its copy for one past an end.
    call.arrays.clear();
    call.arrays.emplace_back(std::vector<int64_t>{20});
    call.integers = {2, 1, 16, 1};
    return call;
  }
  return {};
}

// 0: called; 1: replayed.
void HundredDecodes(benchmark::State& state) {
  aclrtSetDevice(0);
  aclrtStream stream = nullptr;
  aclrtCreateStream(&stream);
  Decode decode(DecodeCall());
  bool good = decode.LaunchAll(stream) && aclrtSynchronizeStream(stream) == 0;
  const auto expected = decode.memory();
  decode.ClearOutputs();
  aclmdlRI graph = nullptr;
  good = good &&
         aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0 &&
         decode.LaunchAll(stream) && aclmdlRICaptureEnd(stream, &graph) == 0 &&
         aclmdlRIExecuteAsync(graph, stream) == 0 &&
         aclrtSynchronizeStream(stream) == 0 && decode.memory() == expected;
  if (!good) {
    const char* message = aclGetRecentErrMsg();
    state.SkipWithError(message == nullptr ? "another answer" : message);
  }
  const bool replays = state.range(0) != 0;
  for (auto _ : state) {
    if (replays) {
      aclmdlRIExecuteAsync(graph, stream);
    } else {
      decode.LaunchAll(stream);
    }
    aclrtSynchronizeStream(stream);
  }
  state.counters["us/launch"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kLaunches * 1e-6,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  aclmdlRIDestroy(graph);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
}
BENCHMARK(HundredDecodes)
    ->ArgName("replayed")
    ->Arg(0)
    ->Arg(1)
    ->UseRealTime()
    ->Repetitions(5)
    ->ReportAggregatesOnly();

// What adapters ask in every call.
void CaptureInfo(benchmark::State& state) {
  aclrtSetDevice(0);
  aclrtStream stream = nullptr;
  aclrtCreateStream(&stream);
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
  aclmdlRI graph = nullptr;
  for (auto _ : state) {
    benchmark::DoNotOptimize(aclmdlRICaptureGetInfo(stream, &status, &graph));
  }
  if (status != ACL_MODEL_RI_CAPTURE_STATUS_NONE) {
    state.SkipWithError("nothing is captured");
  }
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
}
BENCHMARK(CaptureInfo);

}  // namespace
}  // namespace flashacl::testing
