// SPDX-License-Identifier: Apache-2.0
// The lightning indexer and its gradient, whose products only multiply-adds
// should limit: "ratio" is the share of the processor's peak, measured between
// runs. 64 heads of 128 channels, bfloat16. What is timed is compared with fp64
// first: the row that sees most. "selection" is the share of the time that
// listing 2,048 keys takes and listing one does not.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_lightning_indexer.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "backends.h"
#include "base/half.h"
#include "base/random.h"
#include "bench/call.h"
#include "bench/timing.h"
#include "plan/backend.h"
#include "roof/roof.h"

namespace {

using flashacl::bench::Call;
using flashacl::bench::Median;
using flashacl::bench::Seconds;

constexpr int64_t kHeads = 64, kChannels = 128, kListed = 2048;
constexpr int64_t kAllTokens = std::numeric_limits<int64_t>::max();

void FillRandomly(uint16_t* at, int64_t count, flashacl::Random& random) {
  for (int64_t n = 0; n < count; ++n) {
    at[n] = flashacl::Bf16FromF64(2 * random.Fraction() - 1);
  }
}

double NumberAt(const uint16_t* at, int64_t n) {
  return static_cast<double>(flashacl::F32FromBf16(at[n]));
}

// Of a row of the query, counted from `query`, and a key.
double DotOf(const uint16_t* query, int64_t head, const uint16_t* key) {
  double dot = 0;
  for (int64_t d = 0; d < kChannels; ++d) {
    dot += NumberAt(query, head * kChannels + d) * NumberAt(key, d);
  }
  return dot;
}

double ScoreOf(const uint16_t* query, const uint16_t* weights,
               const uint16_t* key) {
  double score = 0;
  for (int64_t h = 0; h < kHeads; ++h) {
    score += NumberAt(weights, h) * std::fmax(DotOf(query, h, key), 0);
  }
  return score;
}

// Rounding moves scores of some hundreds by less.
constexpr double kScoreSlack = 1e-2;

struct Selection {
  Selection(int64_t row_count, int64_t key_count, int64_t listed)
      : rows(row_count), keys(key_count), count(listed) {
    call.Add(ACL_BF16, {1, rows, kHeads, kChannels}, 0);
    call.Add(ACL_BF16, {1, keys, 1, kChannels}, 0);
    call.Add(ACL_BF16, {1, rows, kHeads}, 0);
    call.Add(ACL_INT32, {1, rows, 1, count}, 0);
    flashacl::Random random(1);
    FillRandomly(call.Data<uint16_t>(0), rows * kHeads * kChannels, random);
    FillRandomly(call.Data<uint16_t>(1), keys * kChannels, random);
    FillRandomly(call.Data<uint16_t>(2), rows * kHeads, random);
    call.Prepare([listed](const std::vector<aclTensor*>& t, uint64_t* size,
                          aclOpExecutor** executor) {
      return aclnnLightningIndexerGetWorkspaceSize(
          t[0], t[1], t[2], nullptr, nullptr, nullptr, nullptr, nullptr, listed,
          3, kAllTokens, kAllTokens, false, t[3], nullptr, size, executor);
    });
  }

  double flops() const {
    const auto seen =
        static_cast<double>(rows) *
        (static_cast<double>(keys) - static_cast<double>(rows - 1) / 2);
    return 2 * seen * static_cast<double>(kHeads * kChannels);
  }

  bool IsRight() const {
    const int64_t row = rows - 1;
    std::vector<double> scores;
    for (int64_t j = 0; j < keys; ++j) {
      scores.push_back(
          ScoreOf(call.Data<uint16_t>(0) + row * kHeads * kChannels,
                  call.Data<uint16_t>(2) + row * kHeads,
                  call.Data<uint16_t>(1) + j * kChannels));
    }
    double least = std::numeric_limits<double>::infinity();
    for (int64_t u = 0; u < count; ++u) {
      const int32_t key = call.Data<int32_t>(3)[row * count + u];
      if (key < 0 || key >= keys) return false;
      double& score = scores[static_cast<size_t>(key)];
      if (score > least + kScoreSlack) return false;
      least = score;
      score = -std::numeric_limits<double>::infinity();
    }
    return std::ranges::max(scores) <= least + kScoreSlack;
  }

  const int64_t rows, keys, count;
  Call call{aclnnLightningIndexer};
};

// Times a call beside the processor's peak; false if it went wrong.
template <typename Timed>
bool Ratio(benchmark::State& state, Timed& timed) {
  if (!timed.call.Run() || !timed.IsRight()) {
    const char* const message = aclGetRecentErrMsg();
    state.SkipWithError(message == nullptr ? "a wrong result" : message);
    return false;
  }
  const flashacl::Backend& cpu = flashacl::CpuBackend();
  const flashacl::Roofs roofs = flashacl::RoofsOf(cpu);
  std::vector<double> ratios;
  for (auto _ : state) {
    const double seconds = Seconds([&] { timed.call.Run(); });
    ratios.push_back(timed.flops() / seconds / roofs.flops(cpu));
    state.SetIterationTime(seconds);
  }
  state.counters["ratio"] = Median(ratios);
  return true;
}

void LightningIndexer(benchmark::State& state) {
  Selection timed(state.range(0), state.range(1), kListed);
  if (!Ratio(state, timed)) return;
  Selection one(state.range(0), state.range(1), 1);
  constexpr int kPairs = 9;
  std::vector<double> shares;
  for (int n = 0; n < kPairs; ++n) {
    const double listing = Seconds([&] { timed.call.Run(); });
    const double finding = Seconds([&] { one.call.Run(); });
    shares.push_back(1 - finding / listing);
  }
  state.counters["selection"] = Median(shares);
}
BENCHMARK(LightningIndexer)
    ->ArgNames({"rows", "keys"})
    ->ArgsProduct({{1, 4, 64}, {1 << 12, 1 << 15}})
    ->UseManualTime();

struct Gradient {
  Gradient(int64_t row_count, int64_t key_count)
      : rows(row_count), keys(key_count) {
    const std::vector<int64_t> query{1, rows, kHeads, kChannels},
        key{1, keys, 1, kChannels}, weights{1, rows, kHeads},
        lists{1, rows, 1, kListed};
    call.Add(ACL_BF16, query, 0);
    call.Add(ACL_BF16, key, 0);
    call.Add(ACL_BF16, lists, 0);
    call.Add(ACL_INT32, lists, 0);
    call.Add(ACL_BF16, weights, 0);
    call.Add(ACL_BF16, query, 0);
    call.Add(ACL_BF16, key, 0);
    call.Add(ACL_BF16, weights, 0);
    flashacl::Random random(1);
    FillRandomly(call.Data<uint16_t>(0), rows * kHeads * kChannels, random);
    FillRandomly(call.Data<uint16_t>(1), keys * kChannels, random);
    FillRandomly(call.Data<uint16_t>(2), rows * kListed, random);
    FillRandomly(call.Data<uint16_t>(4), rows * kHeads, random);
    // Different keys in no order: an odd step goes through all.
    for (int64_t n = 0; n < rows * kListed; ++n) {
      call.Data<int32_t>(3)[n] = static_cast<int32_t>(n * 7919 % keys);
    }
    call.Prepare([](const std::vector<aclTensor*>& t, uint64_t* size,
                    aclOpExecutor** executor) {
      return aclnnLightningIndexerGradGetWorkspaceSize(
          t[0], t[1], t[2], t[3], t[4], nullptr, nullptr, 0, nullptr, 0,
          kAllTokens, kAllTokens, true, t[5], t[6], t[7], size, executor);
    });
  }

  // Three products.
  double flops() const {
    return 6 * static_cast<double>(rows * kListed * kHeads * kChannels);
  }

  // The gradient of the last row's weights, to bfloat16 and what cancels.
  bool IsRight() const {
    const int64_t row = rows - 1;
    for (int64_t h = 0; h < kHeads; ++h) {
      double sum = 0;
      for (int64_t u = 0; u < kListed; ++u) {
        const int64_t key = call.Data<int32_t>(3)[row * kListed + u];
        const double dot =
            DotOf(call.Data<uint16_t>(0) + row * kHeads * kChannels, h,
                  call.Data<uint16_t>(1) + key * kChannels);
        sum += NumberAt(call.Data<uint16_t>(2), row * kListed + u) *
               std::fmax(dot, 0);
      }
      const double got = NumberAt(call.Data<uint16_t>(7), row * kHeads + h);
      if (!(std::fabs(got - sum) <= 0x1p-8 * std::fabs(sum) + kScoreSlack)) {
        return false;
      }
    }
    return true;
  }

  const int64_t rows, keys;
  Call call{aclnnLightningIndexerGrad};
};

void LightningIndexerGrad(benchmark::State& state) {
  Gradient timed(state.range(0), state.range(1));
  Ratio(state, timed);
}
BENCHMARK(LightningIndexerGrad)
    ->ArgNames({"rows", "keys"})
    ->ArgsProduct({{64}, {1 << 12, 1 << 15}})
    ->UseManualTime();

}  // namespace
