// SPDX-License-Identifier: Apache-2.0
// aclrtMemcpy beside std::memcpy: the two take turns on the same memory, so
// that whatever else the machine does happens to both. "ratio" is the median
// over pairs of their times (1: as fast); "read_roof" what this machine reads
// with one thread. Also what a small block costs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "acl/acl.h"
#include "bench/timing.h"

namespace {

using flashacl::bench::Median;
using flashacl::bench::Seconds;

// Bytes per second when memory that no cache holds is summed up.
double ReadRoof() {
  static const double roof = [] {
    std::vector<uint64_t> data((size_t{256} << 20) / sizeof(uint64_t), 1);
    uint64_t sum = 0;
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      best = std::min(best, Seconds([&] {
                        // Four sums, so that no addition waits for the one
                        // before.
                        uint64_t part[4] = {};
                        for (size_t i = 0; i < data.size(); i += 4) {
                          for (size_t k = 0; k < 4; ++k) part[k] += data[i + k];
                        }
                        sum += part[0] + part[1] + part[2] + part[3];
                        benchmark::DoNotOptimize(sum);
                      }));
    }
    return static_cast<double>(data.size() * sizeof(uint64_t)) / best;
  }();
  return roof;
}

// A block of the device and one of the host, both written once.
class Sides {
 public:
  explicit Sides(size_t bytes) : bytes_(bytes), host_(bytes) {
    aclrtSetDevice(0);
    aclrtMalloc(&device_, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    std::iota(host_.begin(), host_.end(), 0);
    aclrtMemset(device_, bytes, 0, bytes);
  }
  ~Sides() {
    aclrtFree(device_);
    aclrtResetDevice(0);
  }
  Sides(const Sides&) = delete;
  Sides& operator=(const Sides&) = delete;

  bool Copy(bool to_device) {
    return (to_device ? aclrtMemcpy(device_, bytes_, host_.data(), bytes_,
                                    ACL_MEMCPY_HOST_TO_DEVICE)
                      : aclrtMemcpy(host_.data(), bytes_, device_, bytes_,
                                    ACL_MEMCPY_DEVICE_TO_HOST)) == 0;
  }
  void CopyPlainly(bool to_device) {
    if (to_device) {
      std::memcpy(device_, host_.data(), bytes_);
    } else {
      std::memcpy(host_.data(), device_, bytes_);
    }
    benchmark::ClobberMemory();
  }
  // What goes there comes back.
  bool Verify() {
    const std::vector<unsigned char> sent = host_;
    if (!Copy(true)) return false;
    std::fill(host_.begin(), host_.end(), 0);
    return Copy(false) && host_ == sent;
  }

 private:
  const size_t bytes_;
  std::vector<unsigned char> host_;
  void* device_ = nullptr;
};

void Memcpy(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const bool to_device = state.range(1) != 0;
  Sides sides(bytes);
  if (!sides.Verify()) {
    state.SkipWithError("what was copied there does not come back");
    return;
  }
  // Small copies are timed in groups: a clock costs as much as one of them.
  const int group = static_cast<int>(
      std::max<size_t>(1, (size_t{1} << 16) / std::max<size_t>(bytes, 64)));
  std::vector<double> ours, plain, ratios;
  bool plain_first = false;
  for (auto _ : state) {
    double a = 0, b = 0;
    const auto run_ours = [&] {
      a = Seconds([&] {
        for (int i = 0; i < group; ++i) sides.Copy(to_device);
      });
    };
    const auto run_plain = [&] {
      b = Seconds([&] {
        for (int i = 0; i < group; ++i) sides.CopyPlainly(to_device);
      });
    };
    plain_first = !plain_first;
    if (plain_first) run_plain();
    run_ours();
    if (!plain_first) run_plain();
    ours.push_back(a / group);
    plain.push_back(b / group);
    ratios.push_back(a / b);
    state.SetIterationTime(a);
  }
  const double size = static_cast<double>(bytes);
  const auto rate = benchmark::Counter::kDefaults;
  const auto unit = benchmark::Counter::OneK::kIs1000;
  state.counters["ratio"] = Median(ratios);
  state.counters["ours_B/s"] = {size / Median(ours), rate, unit};
  state.counters["memcpy_B/s"] = {size / Median(plain), rate, unit};
  state.counters["read_roof_B/s"] = {ReadRoof(), rate, unit};
}
BENCHMARK(Memcpy)
    ->ArgNames({"bytes", "to_device"})
    ->ArgsProduct({{64, 4096, 1 << 18, 1 << 22, 1 << 26}, {0, 1}})
    ->UseManualTime();

void MallocAndFree(benchmark::State& state) {
  aclrtSetDevice(0);
  const size_t bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* p = nullptr;
    if (aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != 0 ||
        aclrtFree(p) != 0) {
      state.SkipWithError("no memory");
      break;
    }
  }
  aclrtResetDevice(0);
}
BENCHMARK(MallocAndFree)
    ->ArgName("bytes")
    ->Arg(256)
    ->Arg(1 << 16)
    ->Arg(1 << 25);

}  // namespace
