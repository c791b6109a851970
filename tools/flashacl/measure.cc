// SPDX-License-Identifier: Apache-2.0
// Probe, run, probe, run, ..., probe.
#include "tools/flashacl/measure.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string_view>

#include "base/str.h"

namespace flashacl::tool {
namespace {

using Clock = std::chrono::steady_clock;

// A repetition lasts at least this long, so that neither the clock nor waking
// threads up matters.
constexpr double kRepetitionSeconds = 0.01;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Probe {
  double flops = 0;
  double bandwidth = 0;
};

// The bandwidth first: it leaves nothing in the caches that multiply-adds
// would mind.
Probe TakeProbe(const Backend& backend, const Roofs& roofs) {
  Probe probe;
  if (roofs.read_bandwidth != nullptr) {
    probe.bandwidth = roofs.read_bandwidth(backend);
  }
  if (roofs.flops != nullptr) probe.flops = roofs.flops(backend);
  return probe;
}

// A field of /proc/self/status in bytes; -1 if there is none.
int64_t StatusBytes(std::string_view field) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == field && file >> kib) return kib * 1024;
  }
  return -1;
}

// How much memory the process takes at most from here on. The system keeps
// what it ever took; writing 5 makes it forget.
class MemoryGauge {
 public:
  MemoryGauge() {
#ifdef __GLIBC__
    malloc_trim(0);  // memory that was freed and kept would not count again
#endif
    std::ofstream("/proc/self/clear_refs") << 5;
    before_bytes_ = StatusBytes("VmRSS:");
  }

  int64_t PeakBytes() const {
    const int64_t peak = StatusBytes("VmHWM:");
    if (before_bytes_ < 0 || peak < 0) return -1;
    return std::max<int64_t>(peak - before_bytes_, 0);
  }

 private:
  int64_t before_bytes_ = -1;
};

class Timer {
 public:
  Timer(const Backend& backend, const Plan& plan, Sample& sample)
      : backend_(backend),
        plan_(plan),
        sample_(sample),
        workspace_(
            GuardedBytes::Allocate(*backend.memory, plan.workspace.bytes())) {}

  // Seconds of one of `runs`, after `warm` ones.
  Result<double> Time(int64_t warm, int64_t runs) {
    FLASHACL_RETURN_IF_ERROR(RunTimes(warm));
    const Clock::time_point start = Clock::now();
    FLASHACL_RETURN_IF_ERROR(RunTimes(runs));
    return SecondsSince(start) / static_cast<double>(runs);
  }

 private:
  Status RunTimes(int64_t times) {
    if (!workspace_.present()) {
      return {Code::kOutOfMemory, Str("workspace: no memory for {} bytes",
                                      plan_.workspace.bytes())};
    }
    for (int64_t n = 0; n < times; ++n) {
      FLASHACL_RETURN_IF_ERROR(
          Run(*backend_.queue, plan_, sample_.bindings(), workspace_.data()));
    }
    return {};
  }

  const Backend& backend_;
  const Plan& plan_;
  Sample& sample_;
  GuardedBytes workspace_;
};

template <typename Ratio>
std::vector<double> Each(const std::vector<Repetition>& repetitions,
                         Ratio ratio) {
  std::vector<double> values;
  for (const Repetition& one : repetitions) values.push_back(ratio(one));
  return values;
}

}  // namespace

std::vector<double> Measurement::Seconds() const {
  return Each(repetitions, [](const Repetition& one) { return one.seconds; });
}

std::vector<double> Measurement::FlopsRatios(const Cost& work) const {
  return Each(repetitions, [&](const Repetition& one) {
    const double most = one.seconds * one.flops_roof;
    return most > 0 ? work.flops / most : 0;
  });
}

std::vector<double> Measurement::BandwidthRatios(const Cost& work) const {
  return Each(repetitions, [&](const Repetition& one) {
    const double most = one.seconds * one.bandwidth_roof;
    return most > 0 ? (work.bytes_read + work.bytes_written) / most : 0;
  });
}

Result<FirstRun> RunOnce(const Backend& backend, const Plan& plan,
                         Sample& sample) {
  sample.ResetOutputs();
  const MemoryGauge gauge;
  const Result<double> seconds = Timer(backend, plan, sample).Time(0, 1);
  if (!seconds.ok()) return seconds.status();
  FLASHACL_RETURN_IF_ERROR(sample.CheckUntouched());
  return FirstRun{*seconds, gauge.PeakBytes()};
}

Result<Measurement> Measure(const Backend& backend, const Plan& plan,
                            Sample& sample, const Effort& effort,
                            const Roofs& roofs) {
  Timer timer(backend, plan, sample);
  const Result<double> first = timer.Time(0, 1);
  if (!first.ok()) return first.status();
  const std::vector<std::byte> outputs = sample.Outputs();

  Measurement measurement;
  measurement.runs = std::max<int64_t>(
      1, static_cast<int64_t>(
             std::ceil(kRepetitionSeconds / std::max(*first, 1e-7))));
  const int64_t warm = measurement.runs > 1 ? 1 : 0;
  const Clock::time_point start = Clock::now();
  Probe before = TakeProbe(backend, roofs);
  for (int n = 0;
       n < effort.repetitions || SecondsSince(start) < effort.seconds; ++n) {
    const Result<double> seconds = timer.Time(warm, measurement.runs);
    if (!seconds.ok()) return seconds.status();
    const Probe after = TakeProbe(backend, roofs);
    measurement.repetitions.push_back(
        {*seconds, std::midpoint(before.flops, after.flops),
         std::midpoint(before.bandwidth, after.bandwidth)});
    before = after;
  }
  if (sample.Outputs() != outputs) {
    return Internal("{}: a later run left other bits",
                    plan.implementation->name);
  }
  return measurement;
}

}  // namespace flashacl::tool
