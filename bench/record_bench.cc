// SPDX-License-Identifier: Apache-2.0
// What watching costs, with and without in turns, in one process: statistics of
// a prefill of 2048 rows, eight heads of 128 channels, bf16, in processor and
// wall time (target: under 10 %); phase 1 through the function that records,
// while nothing does, beside the operator's own (target: nothing); and, what
// strict mode does around every use of a block, closing and opening its pages.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "bench/timing.h"

// The operator's own phase 1, which the exported one calls.
extern "C" decltype(aclnnFlashAttentionScoreGetWorkspaceSize)
    Plan_aclnnFlashAttentionScoreGetWorkspaceSize;

namespace flashacl::bench {
namespace {

constexpr int64_t kHeads = 8, kRows = 2048, kDim = 128;

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// Attention forward in layout BNSD, causal, of numbers that repeat.
class Prefill {
 public:
  using Plan = decltype(&aclnnFlashAttentionScoreGetWorkspaceSize);

  Prefill() {
    aclInit(nullptr);  // fails from the second on, which says nothing
    aclrtSetDevice(0);
    for (aclTensor*& one : halves_) {
      one = Add({1, kHeads, kRows, kDim}, ACL_BF16, 2);
    }
    for (aclTensor*& one : sums_)
      one = Add({1, kHeads, kRows, 8}, ACL_FLOAT, 4);
    mask_ = Add({2048, 2048}, ACL_BOOL, 1);
    std::vector<uint8_t> hides(2048 * 2048);
    for (size_t n = 0; n < hides.size(); ++n) hides[n] = n % 2048 > n / 2048;
    aclrtMemcpy(memory_.back(), hides.size(), hides.data(), hides.size(),
                ACL_MEMCPY_HOST_TO_DEVICE);
  }
  ~Prefill() {
    for (const aclTensor* one : {halves_[0], halves_[1], halves_[2], halves_[3],
                                 sums_[0], sums_[1], mask_}) {
      aclDestroyTensor(one);
    }
    for (void* one : memory_) aclrtFree(one);
    aclrtFree(workspace_);
  }
  Prefill(const Prefill&) = delete;
  Prefill& operator=(const Prefill&) = delete;

  bool PlanBy(Plan plan) {
    char layout[] = "BNSD";
    const auto& h = halves_;
    return plan(h[0], h[1], h[2], nullptr, nullptr, nullptr, mask_, nullptr,
                0.088, 1.0, INT32_MAX, INT32_MAX, kHeads, layout, 0, 3,
                sums_[0], sums_[1], nullptr, h[3], &bytes_, &executor_) == 0;
  }
  void Forget() { aclDestroyAclOpExecutor(executor_); }

  bool Run() {
    if (!PlanBy(aclnnFlashAttentionScoreGetWorkspaceSize)) return false;
    if (workspace_ == nullptr) {
      aclrtMalloc(&workspace_, bytes_ + 1, ACL_MEM_MALLOC_NORMAL_ONLY);
    }
    return aclnnFlashAttentionScore(workspace_, bytes_, executor_, nullptr) ==
               0 &&
           aclrtSynchronizeStream(nullptr) == 0;
  }

 private:
  aclTensor* Add(const std::vector<int64_t>& dims, aclDataType type,
                 size_t width) {
    size_t bytes = width;
    for (const int64_t dim : dims) bytes *= static_cast<size_t>(dim);
    void* memory = nullptr;
    aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_NORMAL_ONLY);
    aclrtMemset(memory, bytes, 0x3c, bytes);
    memory_.push_back(memory);
    return aclCreateTensor(dims.data(), dims.size(), type, nullptr, 0,
                           ACL_FORMAT_ND, dims.data(), dims.size(), memory);
  }

  std::vector<void*> memory_;
  aclTensor *halves_[4], *sums_[2], *mask_;
  void* workspace_ = nullptr;
  uint64_t bytes_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

// A folder of records, and the setting that asks for statistics.
struct Folder {
  Folder() {
    if (mkdtemp(path.data()) == nullptr) {
      std::perror(path.c_str());
      std::exit(1);
    }
    setting = path + "/dump.json";
    std::ofstream(setting)
        << R"({"dump":{"dump_path":")" << path
        << R"(","dump_op_switch":"on","dump_mode":"all","dump_data":"stats"}})";
  }
  ~Folder() { std::filesystem::remove_all(path); }

  std::string path = std::filesystem::temp_directory_path() / "flashaclXXXXXX";
  std::string setting;
};

void SkipBy(benchmark::State& state) {
  const char* const message = aclGetRecentErrMsg();
  state.SkipWithError(message == nullptr ? "a call failed" : message);
}

void Statistics(benchmark::State& state) {
  Prefill prefill;
  const Folder folder;
  bool right = prefill.Run();
  std::vector<double> processor, wall, plain;
  for (auto _ : state) {
    double of[2][2] = {};
    for (const int records : {0, 1}) {
      if (records == 1) {
        right = right && aclmdlInitDump() == 0 &&
                aclmdlSetDump(folder.setting.c_str()) == 0;
      }
      const double before = ProcessorSeconds();
      of[records][1] = Seconds([&] { right = right && prefill.Run(); });
      if (records == 1) right = right && aclmdlFinalizeDump() == 0;
      of[records][0] = ProcessorSeconds() - before;
    }
    processor.push_back(of[1][0] / of[0][0]);
    wall.push_back(of[1][1] / of[0][1]);
    plain.push_back(of[0][0]);
  }
  if (!right) SkipBy(state);
  state.counters["processor"] = Median(processor);
  state.counters["wall"] = Median(wall);
  state.counters["ms"] = Median(plain) * 1e3;
}
BENCHMARK(Statistics)->Iterations(15)->Unit(benchmark::kMillisecond);

void RecordingOff(benchmark::State& state) {
  Prefill prefill;
  constexpr int kCalls = 200;
  bool right = true;
  std::vector<double> ratios, plain;
  for (auto _ : state) {
    double seconds[2] = {};
    for (const int exported : {0, 1}) {
      const double before = ProcessorSeconds();
      for (int n = 0; n < kCalls; ++n) {
        right =
            right &&
            prefill.PlanBy(exported == 1
                               ? aclnnFlashAttentionScoreGetWorkspaceSize
                               : Plan_aclnnFlashAttentionScoreGetWorkspaceSize);
        prefill.Forget();
      }
      seconds[exported] = ProcessorSeconds() - before;
    }
    ratios.push_back(seconds[1] / seconds[0]);
    plain.push_back(seconds[0]);
  }
  if (!right) SkipBy(state);
  state.counters["processor"] = Median(ratios);
  state.counters["us"] = Median(plain) * 1e6 / kCalls;
}
BENCHMARK(RecordingOff)->Iterations(101)->Unit(benchmark::kMicrosecond);

// Pages that are all there, in MiB.
void CloseAndOpen(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0)) << 20;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return state.SkipWithError("no memory");
  auto* const first = static_cast<volatile char*>(memory);
  for (auto _ : state) {
    mprotect(memory, bytes, PROT_NONE);
    mprotect(memory, bytes, PROT_READ | PROT_WRITE);
    // Its user finds the pages' entries again.
    for (size_t n = 0; n < bytes; n += 4096) first[n] = 1;
  }
  munmap(memory, bytes);
}
BENCHMARK(CloseAndOpen)
    ->Arg(1)
    ->Arg(16)
    ->Arg(256)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace flashacl::bench
