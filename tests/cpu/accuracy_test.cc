// SPDX-License-Identifier: Apache-2.0
// The law of accuracy: against fp64, kernels err no more than a plain fp32
// computation with the same storage types, whatever the numbers are like. The
// plain one sums in order and rounds results once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/number.h"
#include "base/str.h"
#include "cpu/forward/forward_kernel.h"
#include "cpu/implementations.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/plain_attention.h"
#include "tests/testing/rounding.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::kMaxGreatest;
using testing::kMaxRms;
using testing::PlainAttention;

// What numbers and masks are like.
struct Kind {
  const char* name;
  double scale = 0.125;  // of scores
  int64_t outliers = 0;  // one element in so many is larger
  double values = 1;     // magnitude of values and gradients of outputs
  const char* rule = "";
  bool equal_keys = false;  // all keys of a head are the same

  // Whether more than numbers differ from the usual.
  bool has_path() const { return values == 1 && scale == 0.125 && !equal_keys; }
};

// The last are for outputs alone: of gradients they leave what cancelled.
constexpr Kind kKinds[] = {
    {"normal"},
    {"outliers", 0.125, 500},
    {"large_scale", 4},
    {"tiny_scale", 1e-5},
    {"negative_scale", -0.125},
    {"large_values", 0.125, 0, 100},
    {"tiny_values", 0.125, 0, 1e-2},
    {"few_keys", 0.125, 0, 1, " window:3:0"},
    {"causal", 0.125, 0, 1, " causal"},
    {"one_key", 0.125, 0, 1, " window:0:0"},
    {"equal_scores", 0.125, 0, 1, "", true},
};

// What an implementation is tried on.
struct Family {
  const char* name;
  const Implementation* implementation;
  const char* direction;
  const char* shape;
  size_t kinds;    // of kKinds, from the first
  double outlier;  // times as large as others
  // The greatest error of one set of operands is chance; its mean is not.
  int times;
};

const Family kFamilies[] = {
    {"forward", &kCpuForward, "fwd", "h=4 d=64 q=100 k=500 stats", 11, 1e3, 1},
    {"forward_splits", &kCpuForward, "fwd", "h=4 d=64 q=12 k=4200 stats", 1, 1,
     1},
    {"decode", &kCpuDecode, "fwd", "h=4 d=64 q=24 k=500 stats", 11, 1e3, 6},
    {"decode_splits", &kCpuDecode, "fwd", "h=4 d=64 q=12 k=4200 stats", 1, 1,
     1},
    {"backward", &kCpuBackward, "bwd", "h=1 d=64 q=150 k=300", 9, 100, 6},
    {"backward_rows", &kCpuBackward, "bwd", "h=1 d=64 q=700 k=60", 1, 1, 6},
    {"topk_decode", &kCpuTopKDecode, "fwd",
     "h=4/1 d=64 q=10 k=250 topk:200 stats", 7, 100, 6},
    {"topk_forward", &kCpuTopKForward, "fwd",
     "h=4/1 d=64 q=10 k=250 topk:200 stats", 7, 100, 6},
    {"topk_backward", &kCpuTopKBackward, "bwd",
     "h=4/1 d=64 q=10 k=250 topk:200", 7, 100, 1},
};

void Fill(const Family& family, const Kind& kind, Random& random,
          SmallCase& small) {
  small.FillInputs(random);
  for (const Slot slot :
       {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kGradOut}) {
    const bool multiplied = slot == Slot::kValue || slot == Slot::kGradOut;
    for (int64_t n = 0; n < small.count(slot); ++n) {
      double x = small.Get(slot, n) * (multiplied ? kind.values : 1);
      if (kind.outliers > 0 && random.OneIn(kind.outliers)) x *= family.outlier;
      small.Put(slot, n, x);
    }
  }
  if (kind.equal_keys) {
    const TensorSpec& keys = small.problem()[Slot::kKey];
    for (int64_t n = keys.strides[1]; n < small.count(Slot::kKey); ++n) {
      small.Put(Slot::kKey, n, small.Get(Slot::kKey, n % keys.strides[1]));
    }
  }
  if (small.problem().direction == Direction::kBackward) RunForwardTwin(small);
}

double Rounded(DType dtype, double value) {
  std::byte bytes[8];
  WriteNumber(dtype, bytes, value);
  return ReadNumber(dtype, bytes);
}

// Squares and greatest errors of sets of operands, summed.
struct Errors {
  double squares = 0, greatest = 0;

  void Add(const std::vector<double>& errors) {
    double most = 0;
    for (const double error : errors) {
      squares += error * error;
      most = std::max(most, std::fabs(error));
    }
    greatest += most;
  }
};

struct Pair {
  Errors kernels, plain;

  void ExpectNoWorse(Slot slot) const {
    EXPECT_LE(std::sqrt(kernels.squares), kMaxRms * std::sqrt(plain.squares))
        << Name(slot) << ", " << std::sqrt(kernels.squares / plain.squares);
    EXPECT_LE(kernels.greatest, kMaxGreatest * plain.greatest)
        << Name(slot) << ", " << kernels.greatest / plain.greatest;
  }
};

// Errors are in units of the greatest number of a row of outputs, of a row max
// that is not small, of a row sum, and of all of a gradient, whose rows may be
// nothing but what cancelled.
std::vector<double> UnitsOf(const AttentionProblem& problem, Slot slot,
                            const std::vector<double>& truth) {
  const bool gradient = slot >= Slot::kGradQuery;
  const size_t row = gradient ? std::max<size_t>(truth.size(), 1)
                              : static_cast<size_t>(problem[slot].dims[3]);
  std::vector<double> units(truth.size());
  for (size_t first = 0; first < truth.size(); first += row) {
    double unit = slot == Slot::kRowMax ? 1 : 0;
    for (size_t n = first; n < first + row; ++n) {
      unit = std::max(unit, std::fabs(truth[n]));
    }
    std::fill_n(&units[first], row, unit == 0 ? 1 : unit);
  }
  return units;
}

void Compare(const SmallCase& small, std::map<Slot, Pair>& found) {
  const PlainAttention<double> truths(small);
  const PlainAttention<float> plains(small);
  for (const Slot slot : testing::ResultsOf(small.problem())) {
    const std::vector<double>& truth = truths[slot];
    const std::vector<double> units = UnitsOf(small.problem(), slot, truth);
    std::vector<double> of_kernels = small.Get(slot), of_plain;
    for (size_t n = 0; n < truth.size(); ++n) {
      const double other =
          Rounded(small.problem()[slot].dtype, double{plains[slot][n]});
      of_kernels[n] = (of_kernels[n] - truth[n]) / units[n];
      of_plain.push_back((other - truth[n]) / units[n]);
    }
    found[slot].kernels.Add(of_kernels);
    found[slot].plain.Add(of_plain);
  }
}

struct Setting {
  int64_t target;
  Family family;
  Kind kind;

  std::string name() const {
    return Str("{}_{}_{}", family.name, cpu::TargetName(target), kind.name);
  }
  friend void PrintTo(const Setting& setting, std::ostream* stream) {
    *stream << setting.name();
  }
};

// Sanitizers look at paths, not at numbers; and for races where there is more
// than one thread, which here there is not.
bool IsTried([[maybe_unused]] const Kind& kind) {
#if defined(__SANITIZE_THREAD__)
  return &kind == kKinds;
#elif defined(__SANITIZE_ADDRESS__)
  return kind.has_path();
#else
  return true;
#endif
}

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const int64_t target : testing::TargetsHere()) {
    for (const Family& family : kFamilies) {
      for (size_t n = 0; n < family.kinds; ++n) {
        if (IsTried(kKinds[n])) settings.push_back({target, family, kKinds[n]});
      }
    }
  }
  return settings;
}

class Accuracy : public ::testing::TestWithParam<Setting> {};

TEST_P(Accuracy, IsThatOfPlainSums) {
  const auto& [target, family, kind] = GetParam();
  const testing::OnTarget on(target);
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const std::string line = Str("{} {} {}{} scale:{}", family.direction, dtype,
                                 family.shape, kind.rule, kind.scale);
    SCOPED_TRACE(line);
    const AttentionProblem problem = testing::ProblemOf(line);
    ASSERT_TRUE(family.implementation->supports(problem, {}).ok());
    std::map<Slot, Pair> found;
    for (int seed = 0; seed < family.times; ++seed) {
      Random random(11 + static_cast<uint64_t>(seed));
      SmallCase small(problem);
      Fill(family, kind, random, small);
      testing::RunOn(*family.implementation, small);
      Compare(small, found);
    }
    for (const auto& [slot, pair] : found) pair.ExpectNoWorse(slot);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Accuracy, ::testing::ValuesIn(Settings()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace flashacl::cpu
