// SPDX-License-Identifier: Apache-2.0
// What a call costs that computes little: decoding one token of a sequence of
// few keys, 32 heads on 8, bf16; and phase 1 alone of ordinary problems. "cold"
// lets the library's threads fall asleep first. Only the C API is used, so that
// one program can time two builds of the library. Targets: 30 us for both
// phases and the wait at 128 keys, 10 us for phase 1.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_fused_infer_attention_score.h"

namespace {

constexpr int64_t kHeads = 32, kKeyHeads = 8, kDim = 128;

// Device memory and tensors for the length of a benchmark.
class Tensors {
 public:
  Tensors() { aclrtSetDevice(0); }
  ~Tensors() {
    for (const aclTensor* tensor : tensors_) aclDestroyTensor(tensor);
    for (void* memory : memory_) aclrtFree(memory);
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  void* Allocate(size_t bytes) {
    void* memory = nullptr;
    aclrtMalloc(&memory, bytes + 1, ACL_MEM_MALLOC_NORMAL_ONLY);
    aclrtMemset(memory, bytes + 1, 0, bytes + 1);
    memory_.push_back(memory);
    return memory;
  }

  // Phase 1 looks at no elements: without `real` there are none.
  aclTensor* Add(const std::vector<int64_t>& dims, aclDataType type,
                 bool real = false) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t n = dims.size() - 1; n > 0; --n) {
      strides[n - 1] = strides[n] * dims[n];
    }
    const size_t bytes = static_cast<size_t>(strides[0] * dims[0]) * 4;
    tensors_.push_back(aclCreateTensor(
        dims.data(), dims.size(), type, strides.data(), 0, ACL_FORMAT_ND,
        dims.data(), dims.size(), Allocate(real ? bytes : 64)));
    return tensors_.back();
  }

 private:
  std::vector<aclTensor*> tensors_;
  std::vector<void*> memory_;
};

struct Planned {
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
};

// Fused inference, in layout BSND.
class Inference {
 public:
  Inference(int64_t sequences, int64_t rows, int64_t keys, bool real = false)
      : query_(tensors_.Add({sequences, rows, kHeads, kDim}, ACL_BF16, real)),
        out_(tensors_.Add({sequences, rows, kHeads, kDim}, ACL_BF16, real)) {
    for (aclTensorList** list : {&key_, &value_}) {
      const aclTensor* const one =
          tensors_.Add({sequences, keys, kKeyHeads, kDim}, ACL_BF16, real);
      *list = aclCreateTensorList(&one, 1);
    }
    if (rows > 1) mask_ = tensors_.Add({2048, 2048}, ACL_BOOL);
  }

  aclnnStatus Plan(Planned* planned) {
    char layout[] = "BSND";
    return aclnnFusedInferAttentionScoreGetWorkspaceSize(
        query_, key_, value_, nullptr, mask_, nullptr, nullptr, nullptr,
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        nullptr, kHeads, 0.088, INT32_MAX, INT32_MAX, layout, kKeyHeads,
        mask_ == nullptr ? 0 : 3, 0, 0, 0, false, out_, nullptr,
        &planned->bytes, &planned->executor);
  }

  aclnnStatus Launch(const Planned& planned) {
    if (workspace_ == nullptr) workspace_ = tensors_.Allocate(planned.bytes);
    return aclnnFusedInferAttentionScore(workspace_, planned.bytes,
                                         planned.executor, nullptr);
  }

 private:
  Tensors tensors_;
  aclTensor* query_;
  aclTensor* out_;
  aclTensor* mask_ = nullptr;
  aclTensorList* key_ = nullptr;
  aclTensorList* value_ = nullptr;
  void* workspace_ = nullptr;
};

// Training in layout BNSD, causal; forward or backward.
class Training {
 public:
  Training(int64_t rows, bool backward) : backward_(backward) {
    for (aclTensor*& one : halves_) {
      one = tensors_.Add({1, kHeads, rows, kDim}, ACL_BF16);
    }
    for (aclTensor*& one : sums_) {
      one = tensors_.Add({1, kHeads, rows, 8}, ACL_FLOAT);
    }
  }

  aclnnStatus Plan(Planned* planned) {
    char layout[] = "BNSD";
    const auto& h = halves_;
    if (backward_) {
      return aclnnFlashAttentionScoreGradGetWorkspaceSize(
          h[0], h[1], h[2], h[3], nullptr, nullptr, nullptr, mask_, sums_[0],
          sums_[1], nullptr, h[4], nullptr, 0.088, 1.0, INT32_MAX, INT32_MAX,
          kHeads, layout, 0, 3, h[5], h[6], h[7], nullptr, &planned->bytes,
          &planned->executor);
    }
    return aclnnFlashAttentionScoreGetWorkspaceSize(
        h[0], h[1], h[2], nullptr, nullptr, nullptr, mask_, nullptr, 0.088, 1.0,
        INT32_MAX, INT32_MAX, kHeads, layout, 0, 3, sums_[0], sums_[1], nullptr,
        h[3], &planned->bytes, &planned->executor);
  }

 private:
  Tensors tensors_;
  const bool backward_;
  aclTensor* halves_[8];
  aclTensor* sums_[2];
  aclTensor* mask_ = tensors_.Add({2048, 2048}, ACL_BOOL);
};

void Skip(benchmark::State& state) {
  const char* const message = aclGetRecentErrMsg();
  state.SkipWithError(message == nullptr ? "a call failed" : message);
}

// One duration per iteration, told by its distribution: other programs on the
// machine move the mean, not the best half.
class Durations {
 public:
  explicit Durations(benchmark::State& state) : state_(state) {}
  ~Durations() {
    if (all_.empty()) return;
    std::sort(all_.begin(), all_.end());
    for (const int percent : {1, 10, 50}) {
      const size_t at = all_.size() * static_cast<size_t>(percent) / 100;
      state_.counters["p" + std::to_string(percent) + "_us"] = 1e6 * all_[at];
    }
  }
  Durations(const Durations&) = delete;
  Durations& operator=(const Durations&) = delete;

  template <typename F>
  void Time(F&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    all_.push_back(took.count());
    state_.SetIterationTime(took.count());
  }

 private:
  benchmark::State& state_;
  std::vector<double> all_;
};

enum class Timed { kLaunch, kPhases, kAnswer };

// `timed`: phase 2, both phases, or both and the wait for the answer.
void ShortCall(benchmark::State& state, Timed timed, bool cold) {
  Inference call(1, 1, state.range(0), /*real=*/true);
  Planned planned;
  bool good = true;
  const auto plan = [&] { good = good && call.Plan(&planned) == 0; };
  const auto launch = [&] { good = good && call.Launch(planned) == 0; };
  const auto wait = [&] {
    good = good && aclrtSynchronizeStream(nullptr) == 0;
  };
  plan();
  launch();
  wait();
  Durations durations(state);
  for (auto _ : state) {
    if (cold) std::this_thread::sleep_for(std::chrono::microseconds(500));
    if (timed == Timed::kLaunch) plan();
    durations.Time([&] {
      if (timed != Timed::kLaunch) plan();
      launch();
      if (timed == Timed::kAnswer) wait();
    });
    wait();
    if (!good) return Skip(state);
  }
}

template <typename Call, typename... Args>
void PhaseOne(benchmark::State& state, Args... args) {
  Call call(args...);
  Durations durations(state);
  for (auto _ : state) {
    Planned planned;
    aclnnStatus status = 0;
    durations.Time([&] { status = call.Plan(&planned); });
    if (status != 0) return Skip(state);
    aclDestroyAclOpExecutor(planned.executor);
  }
}

const int kRegistered = [] {
  const auto add = [](const char* name, auto run) {
    return benchmark::RegisterBenchmark(name, run)->UseManualTime()->Unit(
        benchmark::kMicrosecond);
  };
  using State = benchmark::State;
  for (const auto& [name, timed] : {std::pair{"launch", Timed::kLaunch},
                                    {"both phases", Timed::kPhases},
                                    {"answer", Timed::kAnswer}}) {
    for (const bool cold : {false, true}) {
      const std::string full =
          std::string("ShortCall/") + name + (cold ? "/cold" : "");
      add(full.c_str(), [=](State& state) { ShortCall(state, timed, cold); })
          ->Arg(1)
          ->Arg(128);
    }
  }
  add("PhaseOne/decode", [](State& s) {
    PhaseOne<Inference>(s, int64_t{1}, int64_t{1}, int64_t{4096});
  });
  add("PhaseOne/decode of 8", [](State& s) {
    PhaseOne<Inference>(s, int64_t{8}, int64_t{1}, int64_t{4096});
  });
  add("PhaseOne/prompt", [](State& s) {
    PhaseOne<Inference>(s, int64_t{1}, int64_t{4096}, int64_t{4096});
  });
  add("PhaseOne/training forward",
      [](State& s) { PhaseOne<Training>(s, int64_t{4096}, false); });
  add("PhaseOne/training backward",
      [](State& s) { PhaseOne<Training>(s, int64_t{4096}, true); });
  return 0;
}();

}  // namespace
