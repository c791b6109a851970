// SPDX-License-Identifier: Apache-2.0
// Runs the loops of roof-inl.h on all workers and takes the time.
#include "cpu/roof.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>

#include "cpu/cpu_info.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/roof.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which includes this file again for every target.
#include "cpu/roof-inl.h"

#if HWY_ONCE
namespace flashacl::cpu {
namespace {

HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(ReadAll);

constexpr int kRuns = 3;  // whose median counts

// Shares are small, so that workers end together and one that starts late, or
// is interrupted, leaves its shares to others: 12 x 4096 multiply-adds are
// about 10 us, a run about 2 ms.
constexpr int64_t kRounds = 4096;
constexpr int64_t kSharesPerWorker = 200;
constexpr float kSeed = 1e-3f;  // sums stay ordinary numbers

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // of one read
constexpr int64_t kMinProbeBytes = int64_t{64} << 20;
constexpr int64_t kMaxProbeBytes = int64_t{1} << 30;
constexpr int64_t kProbeBytesPerWorker = int64_t{16} << 20;

// Calls run() once to wake everybody up, then kRuns times; what it returns is
// divided by the seconds it took.
template <typename Run>
double MedianRate(Run run) {
  using Clock = std::chrono::steady_clock;
  run();
  std::array<double, kRuns> rates;
  for (double& rate : rates) {
    const Clock::time_point start = Clock::now();
    const double done = run();
    rate = done / std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::nth_element(rates.begin(), rates.begin() + kRuns / 2, rates.end());
  return rates[kRuns / 2];
}

// Memory to read, kept for the next probe; one probe reads at a time.
class ProbeMemory {
 public:
  // Null if there is none.
  const uint64_t* Get(int64_t bytes, Workers& workers) {
    if (bytes == bytes_) return words_;
    if (words_ != nullptr) munmap(words_, static_cast<size_t>(bytes_));
    bytes_ = 0;
    words_ = nullptr;
    void* const at =
        mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    // Fewer, larger pages where the system has them; else nothing changes.
    madvise(at, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    words_ = static_cast<uint64_t*>(at);
    bytes_ = bytes;
    // Pages that nobody wrote to are all the same page of zeros.
    workers.ForEach(bytes / kPieceBytes, [&](int64_t n) {
      std::memset(static_cast<std::byte*>(at) + n * kPieceBytes, 1,
                  static_cast<size_t>(kPieceBytes));
    });
    return words_;
  }

  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
  uint64_t* words_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace

double MeasureFlops(Workers& workers) {
  const int64_t shares = kSharesPerWorker * workers.count();
  std::atomic<float> kept = kSeed;
  return MedianRate([&] {
    std::atomic<int64_t> flops = 0;
    const float seed = std::min(kept.load(), kSeed);
    workers.ForEach(shares, [&](int64_t) {
      float sum = 0;
      flops += HWY_DYNAMIC_DISPATCH(MultiplyAdd)(kRounds, seed, &sum);
      kept = sum;
    });
    return static_cast<double>(flops);
  });
}

double MeasureReadBandwidth(Workers& workers) {
  static const int64_t l3_bytes = DescribeThisCpu().l3_bytes;
  static auto* const memory = new ProbeMemory;
  const std::lock_guard lock(memory->mutex());
  const int64_t bytes = ProbeBytes(l3_bytes, workers.count());
  const uint64_t* const words = memory->Get(bytes, workers);
  if (words == nullptr) return 0;
  constexpr int64_t kPieceWords = kPieceBytes / 8;
  std::atomic<uint64_t> kept = 0;
  return MedianRate([&] {
    workers.ForEach(bytes / kPieceBytes, [&](int64_t n) {
      uint64_t sum = 0;
      HWY_DYNAMIC_DISPATCH(ReadAll)(words + n * kPieceWords, kPieceWords, &sum);
      kept.fetch_xor(sum, std::memory_order_relaxed);
    });
    return static_cast<double>(bytes);
  });
}

int64_t ProbeBytes(int64_t l3_bytes, int workers) {
  const int64_t wanted = std::max(4 * l3_bytes, kProbeBytesPerWorker * workers);
  return std::clamp(wanted, kMinProbeBytes, kMaxProbeBytes) / kPieceBytes *
         kPieceBytes;
}

}  // namespace flashacl::cpu
#endif  // HWY_ONCE
