// SPDX-License-Identifier: Apache-2.0
// The law of accuracy: against fp64, gradients of tiles err no more than those
// of a plain fp32 computation with the same storage types, whatever the numbers
// are like. The plain one sums in order and rounds results once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "base/number.h"
#include "base/str.h"
#include "cpu/backward/backward.h"
#include "cpu/backward/backward_kernel.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/rounding.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::kMaxGreatest;
using testing::kMaxRms;
using testing::OnTarget;

constexpr int64_t kDim = 64;

// What numbers and masks are like.
struct Kind {
  const char* name;
  const char* rule;
  double scale;          // of scores
  int64_t outliers = 0;  // one element in so many is 100 times larger
  double values = 1;     // magnitude of values and gradients of outputs
  int64_t rows = 150;
  int64_t columns = 300;
};

constexpr Kind kKinds[] = {
    {"normal", "", 0.125},
    {"outliers", "", 0.125, 500},
    {"large_scale", "", 2},
    {"tiny_scale", "", 1e-5},
    {"negative_scale", "", -0.125},
    {"large_values", "", 0.125, 0, 100},
    {"tiny_values", "", 0.125, 0, 1e-2},
    {"few_keys", " window:3:0", 0.125},
    {"causal", " causal", 0.125},
    {"many_rows", "", 0.125, 0, 1, 700, 60},
};

struct Operands {
  int64_t rows, columns;
  Band band;
  double scale;
  std::vector<float> q, k, v, out, grad_out, max, sum;  // [row, channel]
};

template <typename T>
struct Gradients {
  std::vector<T> q, k, v;
};

template <typename T>
T DotOf(const float* a, const float* b) {
  T sum = 0;
  for (int64_t d = 0; d < kDim; ++d) {
    sum += static_cast<T>(a[d]) * static_cast<T>(b[d]);
  }
  return sum;
}

// The formulas, in T, summed in order.
template <typename T>
Gradients<T> Plain(const Operands& o) {
  Gradients<T> grads;
  grads.q.resize(o.q.size());
  grads.k.resize(o.k.size());
  grads.v.resize(o.v.size());
  const T scale = static_cast<T>(static_cast<float>(o.scale));
  for (int64_t i = 0; i < o.rows; ++i) {
    const size_t row = static_cast<size_t>(i * kDim);
    const T max = static_cast<T>(o.max[static_cast<size_t>(i)]);
    const T sum = static_cast<T>(o.sum[static_cast<size_t>(i)]);
    const T delta = DotOf<T>(&o.grad_out[row], &o.out[row]);
    for (int64_t j = 0; j < o.columns; ++j) {
      if (!o.band.Sees(i, j)) continue;
      const size_t key = static_cast<size_t>(j * kDim);
      const T score = DotOf<T>(&o.q[row], &o.k[key]) * scale;
      const T p = std::exp(score - max) / sum;
      const T dp = DotOf<T>(&o.grad_out[row], &o.v[key]);
      const T ds = p * (dp - delta);
      for (size_t d = 0; d < kDim; ++d) {
        grads.v[key + d] += p * static_cast<T>(o.grad_out[row + d]);
        grads.q[row + d] += ds * static_cast<T>(o.k[key + d]);
        grads.k[key + d] += ds * static_cast<T>(o.q[row + d]);
      }
    }
  }
  for (T& x : grads.q) x *= scale;
  for (T& x : grads.k) x *= scale;
  return grads;
}

double Rounded(DType dtype, double value) {
  std::byte bytes[8];
  WriteNumber(dtype, bytes, value);
  return ReadNumber(dtype, bytes);
}

struct Errors {
  double squares = 0;
  double greatest = 0;

  void Add(double error) {
    squares += error * error;
    greatest = std::max(greatest, std::fabs(error));
  }
};

void Fill(const Kind& kind, Random& random, SmallCase& small) {
  for (const Slot slot :
       {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kGradOut}) {
    for (int64_t n = 0; n < small.count(slot); ++n) {
      double x = double{random.Bell()};
      if (kind.outliers > 0 && random.OneIn(kind.outliers)) x *= 100;
      if (slot == Slot::kValue || slot == Slot::kGradOut) x *= kind.values;
      small.Put(slot, n, x);
    }
  }
  RunForwardTwin(small);
}

std::vector<float> FloatsOf(const SmallCase& small, Slot slot) {
  std::vector<float> values;
  for (const double x : small.Get(slot)) {
    values.push_back(static_cast<float>(x));
  }
  return values;
}

Operands OperandsOf(const SmallCase& small) {
  const AttentionProblem& p = small.problem();
  const Sequence& extent = p.lengths.sequences[0];
  Operands o{.rows = extent.rows(),
             .columns = extent.columns(),
             .band = p.mask.BandOf(0, extent.rows(), extent.columns()),
             .scale = double{p.score.scale},
             .q = FloatsOf(small, Slot::kQuery),
             .k = FloatsOf(small, Slot::kKey),
             .v = FloatsOf(small, Slot::kValue),
             .out = FloatsOf(small, Slot::kOut),
             .grad_out = FloatsOf(small, Slot::kGradOut),
             .max = {},
             .sum = {}};
  for (int64_t i = 0; i < o.rows; ++i) {
    const SmallCase::Cell cell{0, 0, i, 0};
    o.max.push_back(static_cast<float>(small.GetCell(Slot::kRowMax, cell)));
    o.sum.push_back(static_cast<float>(small.GetCell(Slot::kRowSum, cell)));
  }
  return o;
}

// Errors of the tiles' gradients and of plain ones: squares and greatest errors
// of every set of operands, summed.
struct Pair {
  Errors tiles, plain;

  void Add(const SmallCase& small, Slot slot, const std::vector<float>& other,
           const std::vector<double>& truth) {
    const DType dtype = small.problem()[slot].dtype;
    Errors of_tiles, of_plain;
    for (size_t n = 0; n < truth.size(); ++n) {
      of_tiles.Add(small.Get(slot, static_cast<int64_t>(n)) - truth[n]);
      of_plain.Add(Rounded(dtype, double{other[n]}) - truth[n]);
    }
    tiles.squares += of_tiles.squares;
    tiles.greatest += of_tiles.greatest;
    plain.squares += of_plain.squares;
    plain.greatest += of_plain.greatest;
  }

  void ExpectNoWorse(Slot slot) const {
    EXPECT_LE(std::sqrt(tiles.squares), kMaxRms * std::sqrt(plain.squares))
        << Name(slot) << ", " << std::sqrt(tiles.squares / plain.squares);
    EXPECT_LE(tiles.greatest, kMaxGreatest * plain.greatest)
        << Name(slot) << ", " << tiles.greatest / plain.greatest;
  }
};

struct Setting {
  int64_t target;
  Kind kind;

  std::string name() const {
    return Str("{}_{}", hwy::TargetName(target), kind.name);
  }
  friend void PrintTo(const Setting& setting, std::ostream* stream) {
    *stream << setting.name();
  }
};

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const int64_t target : testing::TargetsHere(BackwardTargets())) {
    for (const Kind& kind : kKinds) settings.push_back({target, kind});
  }
  return settings;
}

class BackwardAccuracy : public ::testing::TestWithParam<Setting> {};

TEST_P(BackwardAccuracy, IsThatOfPlainSums) {
  const auto& [target, kind] = GetParam();
  const OnTarget on(target);
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const std::string line =
        Str("bwd {} h=1 d={} q={} k={}{} scale:{}", dtype, kDim, kind.rows,
            kind.columns, kind.rule, kind.scale);
    SCOPED_TRACE(line);
    const AttentionProblem problem = testing::ProblemOf(line);
    // The greatest error of one set of operands is chance; its mean is not.
    Pair query, key, value;
    for (uint64_t seed = 11; seed < 17; ++seed) {
      Random random(seed);
      SmallCase small(problem);
      Fill(kind, random, small);
      testing::RunOn(kCpuBackward, small);
      const Operands operands = OperandsOf(small);
      const Gradients<double> truth = Plain<double>(operands);
      const Gradients<float> plain = Plain<float>(operands);
      query.Add(small, Slot::kGradQuery, plain.q, truth.q);
      key.Add(small, Slot::kGradKey, plain.k, truth.k);
      value.Add(small, Slot::kGradValue, plain.v, truth.v);
    }
    query.ExpectNoWorse(Slot::kGradQuery);
    key.ExpectNoWorse(Slot::kGradKey);
    value.ExpectNoWorse(Slot::kGradValue);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, BackwardAccuracy,
                         ::testing::ValuesIn(Settings()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace flashacl::cpu
