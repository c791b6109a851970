// SPDX-License-Identifier: Apache-2.0
// What the runtime itself costs: handing a task to a stream, learning that it
// is done, events, words in memory, and looking a handle up. "cold" lets the
// stream's thread fall asleep first.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/latch.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

using Seconds = std::chrono::duration<double>;

// A stream that is known to run tasks in order before anything is timed.
class Warm {
 public:
  explicit Warm(benchmark::State& state) {
    aclrtSetDevice(0);
    aclrtCreateStream(&stream_);
    std::vector<int> order;
    for (int i = 0; i < 100; ++i) {
      Enqueue(
          stream_, [&order, i] { return order.push_back(i), 0; }, "bench");
    }
    bool good = aclrtSynchronizeStream(stream_) == 0 && order.size() == 100;
    for (int i = 0; good && i < 100; ++i) {
      good = order[static_cast<size_t>(i)] == i;
    }
    if (!good) state.SkipWithError("the stream does not keep its order");
  }
  ~Warm() {
    aclrtDestroyStream(stream_);
    aclrtResetDevice(0);
  }
  operator aclrtStream() const { return stream_; }  // NOLINT: by design

 private:
  aclrtStream stream_ = nullptr;
};

// One duration per iteration, also told by its distribution: other programs on
// the machine move the mean, not the best half.
class Durations {
 public:
  explicit Durations(benchmark::State& state) : state_(state) {}
  ~Durations() {
    std::sort(all_.begin(), all_.end());
    for (const int percent : {10, 50, 90}) {
      const size_t at = all_.size() * static_cast<size_t>(percent) / 100;
      if (at >= all_.size()) continue;
      state_.counters["p" + std::to_string(percent) + "_us"] = 1e6 * all_[at];
    }
  }
  void Add(Clock::duration duration) {
    all_.push_back(Seconds(duration).count());
    state_.SetIterationTime(all_.back());
  }

 private:
  benchmark::State& state_;
  std::vector<double> all_;
};

// Enough for the threads of the library to stop looking for news.
void FallAsleep(bool cold) {
  if (cold) std::this_thread::sleep_for(50 * kSpin);
}

// From the call that submits to the first instruction of the task.
void HandOff(benchmark::State& state) {
  Warm stream(state);
  Durations durations(state);
  const bool cold = state.range(0) != 0;
  for (auto _ : state) {
    FallAsleep(cold);
    Clock::time_point started;
    const Clock::time_point submitted = Clock::now();
    Enqueue(
        stream, [&] { return started = Clock::now(), 0; }, "bench");
    aclrtSynchronizeStream(stream);
    durations.Add(started - submitted);
  }
}
BENCHMARK(HandOff)->ArgName("cold")->Arg(0)->Arg(1)->UseManualTime();

// From the last instruction of a task to the return of the call that waits.
// The task is long enough for a cold waiter to sleep.
void WakeUp(benchmark::State& state) {
  Warm stream(state);
  Durations durations(state);
  const auto length = state.range(0) != 0 ? 50 * kSpin : kSpin / 4;
  for (auto _ : state) {
    Clock::time_point ended;
    Enqueue(
        stream,
        [&] {
          const Clock::time_point end = Clock::now() + length;
          while ((ended = Clock::now()) < end) Pause();
          return 0;
        },
        "bench");
    aclrtSynchronizeStream(stream);
    durations.Add(Clock::now() - ended);
  }
}
BENCHMARK(WakeUp)->ArgName("cold")->Arg(0)->Arg(1)->UseManualTime();

void RoundTrip(benchmark::State& state) {
  Warm stream(state);
  Durations durations(state);
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    Enqueue(
        stream, [] { return 0; }, "bench");
    aclrtSynchronizeStream(stream);
    durations.Add(Clock::now() - start);
  }
}
BENCHMARK(RoundTrip)->UseManualTime();

// One of many tasks that are submitted without waiting.
void TaskInABatch(benchmark::State& state) {
  Warm stream(state);
  constexpr int kBatch = 1000;
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) {
      Enqueue(
          stream, [] { return 0; }, "bench");
    }
    aclrtSynchronizeStream(stream);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(TaskInABatch)->UseRealTime();

// The same with waits for a word that is already as it should be; a program
// that writes it and waits in time pays this for each.
void SatisfiedValueWaitInABatch(benchmark::State& state) {
  Warm stream(state);
  constexpr int kBatch = 1000;
  void* word = nullptr;
  aclrtMalloc(&word, sizeof(uint64_t), ACL_MEM_MALLOC_NORMAL_ONLY);
  aclrtValueWrite(word, 1, 0, stream);
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) {
      aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream);
    }
    if (aclrtSynchronizeStream(stream) != 0) {
      state.SkipWithError("the word is not as it was written");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
  aclrtFree(word);
}
BENCHMARK(SatisfiedValueWaitInABatch)->UseRealTime();

void RecordAndSynchronizeEvent(benchmark::State& state) {
  Warm stream(state);
  aclrtEvent event = nullptr;
  aclrtCreateEvent(&event);
  for (auto _ : state) {
    aclrtRecordEvent(event, stream);
    aclrtSynchronizeEvent(event);
  }
  aclrtDestroyEvent(event);
}
BENCHMARK(RecordAndSynchronizeEvent)->UseRealTime();

// One stream runs a task, another waits for it by an event, and we for that.
void CrossStreamWait(benchmark::State& state) {
  Warm first(state), second(state);
  aclrtEvent event = nullptr;
  aclrtCreateEvent(&event);
  for (auto _ : state) {
    aclrtRecordEvent(event, first);
    aclrtStreamWaitEvent(second, event);
    aclrtSynchronizeStream(second);
  }
  aclrtDestroyEvent(event);
}
BENCHMARK(CrossStreamWait)->UseRealTime();

void StreamQuery(benchmark::State& state) {
  Warm stream(state);
  aclrtStreamStatus status{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(aclrtStreamQuery(stream, &status));
  }
}
BENCHMARK(StreamQuery);

}  // namespace
}  // namespace flashacl::acl
