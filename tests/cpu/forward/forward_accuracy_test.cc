// SPDX-License-Identifier: Apache-2.0
// The law of accuracy: against fp64, tiles err no more than a plain fp32
// computation with the same storage types, whatever the numbers are like. The
// plain one takes three passes, sums in order and rounds results once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/number.h"
#include "base/str.h"
#include "cpu/decode/decode.h"
#include "cpu/forward/forward.h"
#include "cpu/forward/forward_kernel.h"
#include "cpu/tuning.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/rounding.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::kMaxGreatest;
using testing::kMaxRms;
using testing::OnTarget;

constexpr int64_t kHeads = 4;
constexpr int64_t kDim = 64;

// What numbers and masks are like.
struct Kind {
  const char* name;
  const char* rule;
  double scale;             // of scores
  int64_t outliers = 0;     // one element in so many is 1000 times larger
  bool equal_keys = false;  // all keys of a head are the same
  double values = 1;        // magnitude of values
  int64_t rows = 100;
  int64_t columns = 500;
};

constexpr Kind kKinds[] = {
    {"normal", "", 0.125},
    {"outliers", "", 0.125, 500},
    {"large_scale", "", 4},
    {"tiny_scale", "", 1e-5},
    {"negative_scale", "", -0.125},
    {"equal_scores", "", 0.125, 0, true},
    {"large_values", "", 0.125, 0, false, 1e4},
    {"tiny_values", "", 0.125, 0, false, 1e-4},
    {"one_key", " window:0:0", 0.125},
    {"few_keys", " window:3:0", 0.125},
    {"causal", " causal", 0.125},
    {"parts", "", 0.125, 0, false, 1, 12, 4200},
};

// A row's out, row max and row sum in T, summed in order.
template <typename T>
struct RowOf {
  std::vector<T> out;
  T max = -std::numeric_limits<T>::infinity();
  T sum = 0;
};

// The numbers of one head of one problem.
struct Head {
  const SmallCase& small;
  int64_t head;

  double At(Slot slot, int64_t row, int64_t d) const {
    return small.Get(slot, small.problem()[slot].At(0, row, head, d));
  }
  std::vector<std::vector<float>> Rows(Slot slot, int64_t count) const {
    std::vector<std::vector<float>> rows(static_cast<size_t>(count));
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t d = 0; d < kDim; ++d) {
        rows[static_cast<size_t>(j)].push_back(
            static_cast<float>(At(slot, j, d)));
      }
    }
    return rows;
  }
};

using Matrix = std::vector<std::vector<float>>;

template <typename T>
RowOf<T> Attend(const std::vector<float>& query, const Matrix& keys,
                const Matrix& values, float scale, std::array<Range, 2> seen) {
  RowOf<T> row;
  std::vector<T> scores;
  std::vector<size_t> columns;
  for (const Range& range : seen) {
    for (int64_t j = range.first; j < range.last; ++j) {
      columns.push_back(static_cast<size_t>(j));
    }
  }
  for (const size_t j : columns) {
    T dot = 0;
    for (size_t d = 0; d < query.size(); ++d) {
      dot += static_cast<T>(query[d]) * static_cast<T>(keys[j][d]);
    }
    scores.push_back(dot * static_cast<T>(scale));
    row.max = std::max(row.max, scores.back());
  }
  for (T& score : scores) {
    score = std::exp(score - row.max);
    row.sum += score;
  }
  row.out.assign(query.size(), T{0});
  for (size_t n = 0; n < columns.size(); ++n) {
    for (size_t d = 0; d < query.size(); ++d) {
      row.out[d] += scores[n] * static_cast<T>(values[columns[n]][d]);
    }
  }
  for (T& x : row.out) x /= row.sum;
  return row;
}

struct Errors {
  double squares = 0;
  double greatest = 0;
  int64_t count = 0;

  void Add(double found, double truth, double unit) {
    const double error =
        unit == 0 ? std::fabs(found - truth) : std::fabs(found - truth) / unit;
    squares += error * error;
    greatest = std::max(greatest, error);
    ++count;
  }
  double rms() const {
    return std::sqrt(squares /
                     static_cast<double>(std::max<int64_t>(1, count)));
  }
};

// Tiles and the plain computation, side by side.
struct Pair {
  Errors tiles, plain;

  void Add(double found, double of_plain, double truth, double unit) {
    tiles.Add(found, truth, unit);
    plain.Add(of_plain, truth, unit);
  }
};

double Rounded(DType dtype, double value) {
  std::byte bytes[8];
  WriteNumber(dtype, bytes, value);
  return ReadNumber(dtype, bytes);
}

void Fill(const Kind& kind, Random& random, SmallCase& small) {
  for (const Slot slot : {Slot::kQuery, Slot::kKey, Slot::kValue}) {
    for (int64_t n = 0; n < small.count(slot); ++n) {
      double x = double{random.Bell()};
      if (kind.outliers > 0 && random.OneIn(kind.outliers)) x *= 1000;
      if (slot == Slot::kValue) x *= kind.values;
      small.Put(slot, n, x);
    }
  }
  if (!kind.equal_keys) return;
  const TensorSpec& keys = small.problem()[Slot::kKey];
  for (int64_t j = 1; j < keys.dims[1]; ++j) {
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t d = 0; d < kDim; ++d) {
        small.Put(Slot::kKey, keys.At(0, j, head, d),
                  small.Get(Slot::kKey, keys.At(0, 0, head, d)));
      }
    }
  }
}

struct Findings {
  Pair out, max, sum;
};

void Compare(const SmallCase& small, Findings& findings) {
  const AttentionProblem& p = small.problem();
  const DType dtype = p[Slot::kOut].dtype;
  const int64_t rows = p.lengths.sequences[0].rows();
  const int64_t columns = p.lengths.sequences[0].columns();
  const Band band = p.mask.BandOf(0, rows, columns);
  for (int64_t h = 0; h < kHeads; ++h) {
    const Head head{small, h};
    const Matrix queries = head.Rows(Slot::kQuery, rows);
    const Matrix keys = head.Rows(Slot::kKey, columns);
    const Matrix values = head.Rows(Slot::kValue, columns);
    for (int64_t i = 0; i < rows; ++i) {
      const auto seen = band.Row(i, columns);
      const auto& query = queries[static_cast<size_t>(i)];
      const auto truth =
          Attend<double>(query, keys, values, p.score.scale, seen);
      const auto plain =
          Attend<float>(query, keys, values, p.score.scale, seen);
      double unit = 0;  // of the row
      for (const double x : truth.out) unit = std::max(unit, std::fabs(x));
      for (int64_t d = 0; d < kDim; ++d) {
        const auto n = static_cast<size_t>(d);
        findings.out.Add(head.At(Slot::kOut, i, d),
                         Rounded(dtype, double{plain.out[n]}), truth.out[n],
                         unit);
      }
      const SmallCase::Cell cell{0, h, i, 0};
      findings.max.Add(small.GetCell(Slot::kRowMax, cell), double{plain.max},
                       truth.max, std::max(1.0, std::fabs(truth.max)));
      findings.sum.Add(small.GetCell(Slot::kRowSum, cell), double{plain.sum},
                       truth.sum, truth.sum);
    }
  }
}

void ExpectNoWorse(const Pair& pair, const char* what) {
  EXPECT_LE(pair.tiles.rms(), kMaxRms * pair.plain.rms())
      << what << ", " << pair.tiles.rms() / pair.plain.rms();
  EXPECT_LE(pair.tiles.greatest, kMaxGreatest * pair.plain.greatest)
      << what << ", " << pair.tiles.greatest / pair.plain.greatest;
}

struct Setting {
  int64_t target;
  Kind kind;
  const Implementation* implementation;

  std::string name() const {
    const std::string_view full = implementation->name;
    return Str("{}_{}_{}", full.substr(full.rfind('/') + 1),
               hwy::TargetName(target), kind.name);
  }
  friend void PrintTo(const Setting& setting, std::ostream* stream) {
    *stream << setting.name();
  }
};

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const int64_t target : testing::TargetsHere(ForwardTargets())) {
    for (const Kind& kind : kKinds) {
      settings.push_back({target, kind, &kCpuForward});
      Kind few = kind;
      few.rows = std::min(few.rows, kDecodeRows);
      settings.push_back({target, few, &kCpuDecode});
    }
  }
  return settings;
}

class Accuracy : public ::testing::TestWithParam<Setting> {};

TEST_P(Accuracy, IsThatOfPlainSums) {
  const auto& [target, kind, implementation] = GetParam();
  const OnTarget on(target);
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const std::string line =
        Str("fwd {} h={} d={} q={} k={}{} stats scale:{}", dtype, kHeads, kDim,
            kind.rows, kind.columns, kind.rule, kind.scale);
    SCOPED_TRACE(line);
    const AttentionProblem problem = testing::ProblemOf(line);
    ASSERT_TRUE(implementation->supports(problem, {}).ok());
    Findings findings;
    // Sums in another order err elsewhere, which few outliers show as chance
    // has it.
    const bool chance = kind.outliers > 0 || kind.equal_keys;
    const int times = chance && implementation == &kCpuDecode ? 6 : 1;
    for (int seed = 0; seed < times; ++seed) {
      Random random(11 + static_cast<uint64_t>(seed));
      SmallCase small(problem);
      Fill(kind, random, small);
      testing::RunOn(*implementation, small);
      Compare(small, findings);
    }
    ExpectNoWorse(findings.out, "out");
    ExpectNoWorse(findings.max, "row max");
    ExpectNoWorse(findings.sum, "row sum");
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Accuracy, ::testing::ValuesIn(Settings()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace flashacl::cpu
