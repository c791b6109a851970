// SPDX-License-Identifier: Apache-2.0
// The two loops that nothing can overtake, multiply-adds without memory and
// loads without arithmetic to speak of, and the time they take on all workers.
#include "roof/roof.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>

#include "roof/roof_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "roof/roof.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for every target.
#include "cpu/dispatch.h"
#include "cpu/tile/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::roof::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using cpu::HWY_NAMESPACE::LanesOf;
using cpu::HWY_NAMESPACE::VectorOf;

// One share of the arithmetic: `rounds` times one multiply-add on each of 12
// vectors; returns how many FLOP that was. Two multiply-adds per cycle that
// take 4 or 5 cycles each keep 8 to 10 in flight, and 12 sums and two factors
// fit the 16 registers of AVX2. The sum is a factor, so that no compiler takes
// the product out of the loop where it is an instruction of its own. `seed`
// keeps the compiler from knowing the answer, `sum` from thinking that nobody
// wants it.
inline int64_t MultiplyAdd(int64_t rounds, float seed,
                           float* HWY_RESTRICT sum) {
  constexpr int kSums = 12;
  using D = hn::ScalableTag<float>;
  const D d;
  const auto a = hn::Set(d, seed);
  const auto b = hn::Set(d, seed * 0.5f);
  VectorOf<D> sums[kSums];
  sums[0] = a;
  // Sums that began alike would be one sum to the compiler.
  HWY_UNROLL(12)
  for (int s = 1; s < kSums; ++s) sums[s] = hn::Add(sums[s - 1], b);
  for (int64_t n = 0; n < rounds; ++n) {
    HWY_UNROLL(12)
    for (auto& one : sums) one = hn::MulAdd(one, a, b);
  }
  HWY_UNROLL(12)
  for (int s = 1; s < kSums; ++s) sums[0] = hn::Add(sums[0], sums[s]);
  *sum = hn::GetLane(sums[0]);
  return 2 * kSums * rounds * static_cast<int64_t>(hn::Lanes(d));
}

// Reads `count` words, a multiple of 8 vectors; `sum` as above.
inline void ReadAll(const uint64_t* HWY_RESTRICT words, size_t count,
                    uint64_t* HWY_RESTRICT sum) {
  using D = hn::ScalableTag<uint64_t>;
  const D d;
  constexpr size_t kLanes = LanesOf(d);
  VectorOf<D> sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (size_t n = 0; n < count; n += 8 * kLanes) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < 8; ++v) {
      sums[v % 4] = hn::Xor(sums[v % 4], hn::Load(d, words + n + v * kLanes));
    }
  }
  *sum = hn::GetLane(
      hn::Xor(hn::Xor(sums[0], sums[1]), hn::Xor(sums[2], sums[3])));
}

RoofLoops RoofTable() { return {MultiplyAdd, ReadAll}; }

}  // namespace flashacl::roof::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::roof {

FLASHACL_EXPORT(RoofLoops, RoofTable);

namespace {

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
  const auto multiply_add = FLASHACL_DISPATCH(RoofTable).multiply_add;
  return MedianRate([&] {
    std::atomic<int64_t> flops = 0;
    const float seed = std::min(kept.load(), kSeed);
    workers.ForEach(shares, [&](int64_t) {
      float sum = 0;
      flops += multiply_add(kRounds, seed, &sum);
      kept = sum;
    });
    return static_cast<double>(flops);
  });
}

double MeasureReadBandwidth(Workers& workers, int64_t l3_bytes) {
  static auto* const memory = new ProbeMemory;
  const std::lock_guard lock(memory->mutex());
  const int64_t bytes = ProbeBytes(l3_bytes, workers.count());
  const uint64_t* const words = memory->Get(bytes, workers);
  if (words == nullptr) return 0;
  constexpr int64_t kPieceWords = kPieceBytes / 8;
  std::atomic<uint64_t> kept = 0;
  const auto read_all = FLASHACL_DISPATCH(RoofTable).read_all;
  return MedianRate([&] {
    workers.ForEach(bytes / kPieceBytes, [&](int64_t n) {
      uint64_t sum = 0;
      read_all(words + n * kPieceWords, kPieceWords, &sum);
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

}  // namespace flashacl::roof

namespace flashacl {
namespace {

// What measure(workers) returns, with those of the backend's queue.
template <typename Measure>
double OnWorkers(const Backend& backend, Measure measure) {
  double rate = 0;
  (void)backend.queue->OnHost([&](Workers& workers) -> Status {
    rate = measure(workers);
    return {};
  });
  return rate;
}

double HostFlops(const Backend& backend) {
  return OnWorkers(backend, roof::MeasureFlops);
}

double HostReadBandwidth(const Backend& backend) {
  return OnWorkers(backend, [&](Workers& workers) {
    return roof::MeasureReadBandwidth(workers, backend.device.l3_bytes);
  });
}

}  // namespace

Roofs RoofsOf(const Backend& backend) {
  if (backend.name == "cpu") return {HostFlops, HostReadBandwidth};
  return {};
}

}  // namespace flashacl
#endif  // FLASHACL_ONCE
