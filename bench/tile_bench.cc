// SPDX-License-Identifier: Apache-2.0
// The kernels of src/cpu/tile alone, on every instruction set of this
// processor. Each is first held against a scalar loop. "of_peak" is the share
// of the multiply-adds that registers alone allow, measured before and after;
// "FMA/vector" how many multiply-adds of a vector take as long as a vector of
// what the kernel does. Neither depends on the clock, and both on nothing but
// the kernel. "KiB" is what one round touches: with cache:1 the least there
// is, with cache:2 half of the second cache.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/str.h"
#include "bench/tile/kernels.h"
#include "bench/timing.h"
#include "hwy/aligned_allocator.h"
#include "hwy/targets.h"
#include "roof/roof.h"

namespace flashacl::bench {
namespace {

constexpr int64_t kKeys = 144;  // of one step

// Rounds are timed in groups of at least this much work: a clock takes as long
// as a short one.
constexpr double kFlopsAtOnce = 1 << 21;
constexpr double kElementsAtOnce = 1 << 17;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// While it lives, vector code runs on `target`, roofs included, on one thread.
class OnTarget {
 public:
  explicit OnTarget(int64_t target) {
    SetWorkerCount(1);
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

// Aligned floats between -1 and 1, always the same.
class Numbers {
 public:
  explicit Numbers(int64_t count)
      : count_(count),
        at_(hwy::AllocateAligned<float>(static_cast<size_t>(count))) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> number(-1, 1);
    std::generate(at_.get(), at_.get() + count, [&] { return number(random); });
  }
  float* at(int64_t n = 0) { return at_.get() + n; }
  float operator[](int64_t n) const { return at_[static_cast<size_t>(n)]; }
  void Fill(float value) { std::fill(at(), at(count_), value); }

 private:
  int64_t count_;
  hwy::AlignedFreeUniquePtr<float[]> at_;
};

// What is being timed.
struct Case {
  int64_t target = 0;
  TileKernels kernels;
  bool second_cache = false;
  int64_t channels = 0;
  DType dtype = DType::kNone;

  int64_t width() const { return 2 * kernels.lanes; }

  // How often something of `bytes` is there.
  int64_t Copies(int64_t bytes) const {
    if (!second_cache) return 1;
    return std::max<int64_t>(2, CpuBackend().device.l2_bytes / 2 / bytes);
  }
};

bool Near(double value, double expected, double scale) {
  return std::abs(value - expected) <= 1e-6 * scale;
}

// Median seconds of a round, which is run(n) for all n < copies.
template <typename Run>
double Seconds(benchmark::State& state, int64_t copies, double rounds,
               Run run) {
  const int64_t group = std::max<int64_t>(1, std::llround(rounds));
  std::vector<double> seconds;
  for (auto _ : state) {
    const auto start = Clock::now();
    for (int64_t round = 0; round < group; ++round) {
      for (int64_t n = 0; n < copies; ++n) run(n);
    }
    benchmark::ClobberMemory();
    const double took =
        std::chrono::duration<double>(Clock::now() - start).count();
    state.SetIterationTime(took);
    seconds.push_back(took / static_cast<double>(group));
  }
  return bench::Median(std::move(seconds));
}

// Times with the peak of this target on both sides.
class Meter {
 public:
  Meter(benchmark::State& state, const Case& of) : state_(state), case_(of) {}

  // `bytes` and `flops` of each copy.
  template <typename Run>
  void Flops(int64_t copies, int64_t bytes, double flops, Run run) {
    const double all = flops * static_cast<double>(copies);
    const double seconds = Time(copies, kFlopsAtOnce / all, run);
    Put("FLOP/s", all / seconds);
    state_.counters["of_peak"] = all / seconds / peak_;
    Size(copies * bytes);
  }

  template <typename Run>
  void Elements(int64_t copies, int64_t bytes, int64_t elements, Run run) {
    const auto all = static_cast<double>(elements * copies);
    const double seconds = Time(copies, kElementsAtOnce / all, run);
    const auto lanes = static_cast<double>(case_.kernels.lanes);
    const double per_vector = seconds / all * lanes;
    Put("elements/s", all / seconds);
    state_.counters["ns/vector"] = per_vector * 1e9;
    state_.counters["FMA/vector"] = per_vector * peak_ / (2 * lanes);
    Size(copies * bytes);
  }

 private:
  template <typename Run>
  double Time(int64_t copies, double rounds, Run run) {
    const Backend& cpu = CpuBackend();
    const Roofs roofs = RoofsOf(cpu);
    const double before = roofs.flops(cpu);
    const double seconds = Seconds(state_, copies, rounds, run);
    peak_ = (before + roofs.flops(cpu)) / 2;
    return seconds;
  }
  void Put(const char* name, double per_second) {
    state_.counters[name] = {per_second, benchmark::Counter::kDefaults,
                             benchmark::Counter::OneK::kIs1000};
  }
  void Size(int64_t bytes) {
    state_.counters["KiB"] = static_cast<double>(bytes) / 1024;
  }

  benchmark::State& state_;
  const Case& case_;
  double peak_ = 0;
};

// Whether sums [row, lane] are those of scalar(row, k) and panel [k, lane].
template <typename Scalar>
bool IsProduct(const Numbers& sums, int64_t rows, const Numbers& panel,
               const Case& of, Scalar scalar, int64_t depth) {
  for (int64_t n = 0; n < rows * of.width(); ++n) {
    double sum = 0, size = 1;
    for (int64_t k = 0; k < depth; ++k) {
      const double one = double{scalar(n / of.width(), k)} *
                         double{panel[k * of.width() + n % of.width()]};
      sum += one;
      size += std::abs(one);
    }
    if (!Near(sums[n], sum, size)) return false;
  }
  return true;
}

// Scores of blocks of keys, whose rows lie as the forward loop lays them.
void AddRows(benchmark::State& state, const Case& of,
             const BlockKernels& block) {
  const int64_t stride = of.channels + 16;  // an odd number of lines
  const int64_t item = block.rows * stride;
  const int64_t copies = of.Copies(4 * item);
  Numbers rows(copies * item), panel(of.channels * of.width());
  Numbers sums(block.rows * of.width());
  const auto run = [&](int64_t n) {
    block.add_rows(rows.at(n * item), stride, panel.at(), of.channels,
                   sums.at());
  };
  run(0);
  const auto scalar = [&](int64_t r, int64_t k) {
    return rows[r * stride + k];
  };
  if (!IsProduct(sums, block.rows, panel, of, scalar, of.channels)) {
    return state.SkipWithError("the scores are wrong");
  }
  Meter(state, of).Flops(
      copies, 4 * item,
      2.0 * static_cast<double>(block.rows * of.channels * of.width()), run);
}

// Outputs of blocks of channels, out of the values of one step of keys.
void AddColumns(benchmark::State& state, const Case& of,
                const BlockKernels& block) {
  const int64_t item = block.rows * kKeys;
  const int64_t copies = of.Copies(4 * item);
  Numbers columns(copies * item), panel(kKeys * of.width());
  Numbers sums(block.rows * of.width());
  const auto run = [&](int64_t n) {
    block.add_columns(columns.at(n * item), panel.at(), kKeys, sums.at());
  };
  run(0);
  const auto scalar = [&](int64_t r, int64_t k) {
    return columns[k * block.rows + r];
  };
  if (!IsProduct(sums, block.rows, panel, of, scalar, kKeys)) {
    return state.SkipWithError("the outputs are wrong");
  }
  Meter(state, of).Flops(
      copies, 4 * item,
      2.0 * static_cast<double>(block.rows * kKeys * of.width()), run);
}

// Whether weights are those of `scores`, [key, lane], and `sum` is `before` and
// theirs.
bool AreWeights(const Numbers& probs, const Numbers& scores, const Numbers& sum,
                int64_t width, double before) {
  for (int64_t lane = 0; lane < width; ++lane) {
    double all = before;
    for (int64_t j = 0; j < kKeys; ++j) {
      const int64_t n = j * width + lane;
      const double prob = std::exp(double{scores[n]} - 1);
      if (!Near(probs[n], prob, 1)) return false;
      all += prob;
    }
    if (!Near(sum[lane], all, all)) return false;
  }
  return true;
}

// Weights of weights of weights... stay between 0 and 1, and take no other
// time.
void ExpAndSum(benchmark::State& state, const Case& of) {
  const int64_t item = kKeys * of.width();
  const int64_t copies = of.Copies(4 * item);
  Numbers scores(copies * item), from(of.width()), sum(of.width());
  const Numbers untouched(copies * item);
  from.Fill(1);
  const auto run = [&](int64_t n) {
    of.kernels.softmax(scores.at(n * item), kKeys, from.at(), sum.at());
  };
  run(0);
  if (!AreWeights(scores, untouched, sum, of.width(), 0)) {
    return state.SkipWithError("the weights are wrong");
  }
  Meter(state, of).Elements(copies, 4 * item, item, run);
}

void OnlineSoftmax(benchmark::State& state, const Case& of) {
  const int64_t item = kKeys * of.width();
  const int64_t copies = of.Copies(4 * item);
  Numbers scores(copies * item), block_max(of.width());
  const Numbers untouched(copies * item);
  Numbers max(of.width()), sum(of.width()), rescale(of.width());
  block_max.Fill(1);
  max.Fill(0);
  sum.Fill(2);
  const auto run = [&](int64_t n) {
    of.kernels.take_in(scores.at(n * item), kKeys, block_max.at(),
                       {max.at(), sum.at(), rescale.at()});
  };
  run(0);
  const double factor = std::exp(-1.0);
  if (!AreWeights(scores, untouched, sum, of.width(), 2 * factor) ||
      !Near(rescale[0], factor, 1) || max[0] != 1) {
    return state.SkipWithError("the weights are wrong");
  }
  Meter(state, of).Elements(copies, 4 * item, item, run);
}

void HideScores(benchmark::State& state, const Case& of) {
  const int64_t item = kKeys * of.width();
  const int64_t copies = of.Copies(4 * item);
  Numbers scores(copies * item), block_max(of.width());
  const Numbers untouched(copies * item);
  const auto words = static_cast<size_t>((kKeys + 31) / 32 * of.width());
  const auto visible = hwy::AllocateAligned<uint32_t>(words);
  std::mt19937 random(2);
  std::generate(visible.get(), visible.get() + words, random);
  const auto run = [&](int64_t n) {
    of.kernels.hide_scores(scores.at(n * item), visible.get(), kKeys,
                           block_max.at());
  };
  run(0);
  bool right = true;
  for (int64_t lane = 0; lane < of.width(); ++lane) {
    float greatest = kMinusInfinity;
    for (int64_t j = 0; j < kKeys; ++j) {
      const auto word = static_cast<size_t>(j / 32 * of.width() + lane);
      const bool seen = (visible[word] >> (j % 32) & 1u) != 0;
      const int64_t n = j * of.width() + lane;
      const float expected = seen ? untouched[n] : kMinusInfinity;
      right = right && scores[n] == expected;
      greatest = std::max(greatest, expected);
    }
    right = right && block_max[lane] == greatest;
  }
  if (!right) return state.SkipWithError("the scores are wrong");
  Meter(state, of).Elements(copies, 4 * item, item, run);
}

// Stores `value` as an element and returns what that element is worth.
float PutElement(DType dtype, float value, std::byte* at) {
  const auto put = [at](auto element) {
    std::memcpy(at, &element, sizeof(element));
    return element;
  };
  switch (dtype) {
    case DType::kF32:
      return put(value);
    case DType::kF16:
      return F32FromF16(put(F16FromF32(value)));
    case DType::kBf16:
      return F32FromBf16(put(Bf16FromF32(value)));
    case DType::kF64:
      return static_cast<float>(put(double{value}));
    default:
      return static_cast<float>(put(static_cast<int8_t>(value * 127)));
  }
}

void LoadRow(benchmark::State& state, const Case& of) {
  cpu::ElementFormat format;
  format.dtype = of.dtype;
  format.element_bytes = SizeOf(of.dtype);
  const int64_t bytes = of.channels * (format.element_bytes + 4);
  const int64_t copies = of.Copies(bytes);
  const int64_t count = copies * of.channels;
  const Numbers values(count);
  Numbers expected(count), to(count);
  std::vector<std::byte> from(
      static_cast<size_t>(count * format.element_bytes));
  for (int64_t n = 0; n < count; ++n) {
    *expected.at(n) =
        PutElement(of.dtype, values[n], from.data() + n * format.element_bytes);
  }
  const auto run = [&](int64_t n) {
    of.kernels.load_row(format,
                        from.data() + n * of.channels * format.element_bytes,
                        of.channels, to.at(n * of.channels));
  };
  for (int64_t n = 0; n < copies; ++n) run(n);
  if (!std::equal(to.at(), to.at(count), expected.at())) {
    return state.SkipWithError("the numbers are wrong");
  }
  Meter(state, of).Elements(copies, bytes, of.channels, run);
}

enum class Way { kRowsToPanel, kAddRowsToPanel, kPanelToRows };

// Whole panels, four lanes after four.
void Transpose(benchmark::State& state, const Case& of, Way way) {
  const int64_t item = of.channels * of.width();
  const int64_t copies = of.Copies(8 * item);
  Numbers rows(copies * item), panels(copies * item);
  std::reverse(panels.at(), panels.at(copies * item));
  Numbers old_rows(item), old_panel(item);
  std::copy_n(rows.at(), item, old_rows.at());
  std::copy_n(panels.at(), item, old_panel.at());
  const auto kernel = way == Way::kRowsToPanel   ? of.kernels.rows_to_panel
                      : way == Way::kPanelToRows ? of.kernels.panel_to_rows
                                                 : of.kernels.add_rows_to_panel;
  const auto run = [&](int64_t n) {
    for (int64_t lane = 0; lane < of.width(); lane += 4) {
      kernel({rows.at(n * item + lane * of.channels), of.channels, of.channels,
              panels.at(n * item + lane)});
    }
  };
  run(0);
  for (int64_t n = 0; n < item; ++n) {
    const int64_t lane = n / of.channels, k = n % of.channels;
    const int64_t m = k * of.width() + lane;
    const float row = old_rows[n], was = old_panel[m];
    const bool right = way == Way::kRowsToPanel ? panels[m] == row
                       : way == Way::kPanelToRows
                           ? rows[n] == was
                           : panels[m] == (was + row) * kHalf;
    if (!right) return state.SkipWithError("rows and lanes differ");
  }
  Meter(state, of).Elements(copies, 8 * item, item, run);
}

// Registers TARGET/name/cache for both caches.
template <typename Body>
void Register(Case of, const std::string& name, Body body) {
  for (const bool second : {false, true}) {
    of.second_cache = second;
    const std::string whole =
        Str("{}/{}/cache:{}", hwy::TargetName(of.target), name, second ? 2 : 1);
    benchmark::RegisterBenchmark(whole.c_str(),
                                 [of, body](benchmark::State& state) {
                                   const OnTarget on(of.target);
                                   body(state, of);
                                 })
        ->UseManualTime()
        ->MinTime(0.05)
        ->Unit(benchmark::kMicrosecond);
  }
}

void RegisterProducts(const Case& of, const BlockKernels& block) {
  Register(of, Str("AddColumns/channels:{}/keys:{}", block.rows, kKeys),
           [block](benchmark::State& state, const Case& one) {
             AddColumns(state, one, block);
           });
  for (const int64_t channels : {64, 128, 256}) {
    Case one = of;
    one.channels = channels;
    Register(one, Str("AddRows/keys:{}/d:{}", block.rows, channels),
             [block](benchmark::State& state, const Case& now) {
               AddRows(state, now, block);
             });
  }
}

void RegisterRows(Case of) {
  for (const int64_t channels : {64, 128, 256}) {
    of.channels = channels;
    for (const DType dtype :
         {DType::kBf16, DType::kF16, DType::kF32, DType::kI8, DType::kF64}) {
      of.dtype = dtype;
      Register(of, Str("LoadRow/{}/d:{}", Name(dtype), channels), LoadRow);
    }
    const auto transpose = [&](const char* name, Way way) {
      Register(of, Str("{}/d:{}", name, channels),
               [way](benchmark::State& state, const Case& one) {
                 Transpose(state, one, way);
               });
    };
    transpose("RowsToPanel", Way::kRowsToPanel);
    transpose("AddRowsToPanel", Way::kAddRowsToPanel);
    transpose("PanelToRows", Way::kPanelToRows);
  }
}

const int kRegistered = [] {
  const int64_t targets = TileTargets() & hwy::SupportedTargets();
  for (int64_t left = targets; left != 0; left &= left - 1) {
    Case of;
    of.target = left & -left;
    {
      const OnTarget on(of.target);
      of.kernels = ChosenTileKernels();
    }
    RegisterProducts(of, of.kernels.big);
    RegisterProducts(of, of.kernels.small);
    Register(of, Str("ExpAndSum/keys:{}", kKeys), ExpAndSum);
    Register(of, Str("OnlineSoftmax/keys:{}", kKeys), OnlineSoftmax);
    Register(of, Str("HideScores/keys:{}", kKeys), HideScores);
    RegisterRows(of);
  }
  return 0;
}();

}  // namespace
}  // namespace flashacl::bench
