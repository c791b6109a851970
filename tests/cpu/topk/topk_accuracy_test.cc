// SPDX-License-Identifier: Apache-2.0
// The law of accuracy over listed keys: against fp64, kernels err no more
// than a plain fp32 computation with the same storage types, which sums in
// order and rounds results once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/number.h"
#include "base/str.h"
#include "cpu/forward/forward_kernel.h"
#include "cpu/topk/topk_backward.h"
#include "cpu/topk/topk_forward.h"
#include "tests/cpu/targets.h"
#include "tests/cpu/topk/topk.h"
#include "tests/testing/rounding.h"

namespace flashacl::cpu {
namespace {

using testing::kMaxGreatest;
using testing::kMaxRms;
using testing::OnTarget;

constexpr int64_t kHeads = 4, kRows = 10, kColumns = 250, kDim = 64;

struct Kind {
  const char* name;
  double scale;          // of scores
  int64_t outliers = 0;  // one element in so many is 100 times larger
  double gradients = 1;  // magnitude of the gradients of outputs
};
constexpr Kind kKinds[] = {{"normal", 0.125},
                           {"outliers", 0.125, 500},
                           {"large_scale", 2},
                           {"tiny_scale", 1e-4},
                           {"large_gradients", 0.125, 0, 1e4}};

template <typename T>
using Numbers = std::vector<T>;  // [row or column, head, channel]

// Both directions in T, summed in order.
template <typename T>
struct Plain {
  const SmallCase& small;
  std::map<Slot, Numbers<T>> results;

  explicit Plain(const SmallCase& one) : small(one) {
    results[Slot::kGradKey].resize(kColumns * kDim);
    results[Slot::kGradValue].resize(kColumns * kDim);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t h = 0; h < kHeads; ++h) Row(i, h);
    }
  }

  T At(Slot slot, int64_t row, int64_t head, int64_t d) const {
    return static_cast<T>(
        small.Get(slot, small.problem()[slot].At(0, row, head, d)));
  }

  T Dot(Slot a, int64_t i, int64_t h, Slot b, int64_t j, int64_t g) const {
    T sum = 0;
    for (int64_t d = 0; d < kDim; ++d) sum += At(a, i, h, d) * At(b, j, g, d);
    return sum;
  }

  void Row(int64_t i, int64_t h) {
    const bool forward = small.problem().direction == Direction::kForward;
    const T scale = small.problem().score.scale;
    std::vector<int64_t> columns;
    const TensorSpec& list = small.problem()[Slot::kTopK];
    for (int64_t n = 0; n < list.dims[3]; ++n) {
      const double u = small.Get(Slot::kTopK, list.At(0, i, 0, n));
      if (u < 0) break;
      if (u < kColumns) columns.push_back(static_cast<int64_t>(u));
    }
    Numbers<T> scores, sums(kDim);
    for (const int64_t j : columns) {
      scores.push_back(scale * Dot(Slot::kQuery, i, h, Slot::kKey, j, 0));
    }
    if (forward) return Attend(columns, scores, sums);
    const SmallCase::Cell cell{0, h, i, 0};
    const T max = static_cast<T>(small.GetCell(Slot::kRowMax, cell));
    const T sum = static_cast<T>(small.GetCell(Slot::kRowSum, cell));
    const T delta = Dot(Slot::kGradOut, i, h, Slot::kOut, i, h);
    for (size_t n = 0; n < columns.size(); ++n) {
      const int64_t j = columns[n];
      const T p = std::exp(scores[n] - max) / sum;
      const T dp = Dot(Slot::kGradOut, i, h, Slot::kValue, j, 0);
      const T ds = scale * (p * (dp - delta));
      for (int64_t d = 0; d < kDim; ++d) {
        const auto at = static_cast<size_t>(j * kDim + d);
        sums[static_cast<size_t>(d)] += ds * At(Slot::kKey, j, 0, d);
        results[Slot::kGradKey][at] += ds * At(Slot::kQuery, i, h, d);
        results[Slot::kGradValue][at] += p * At(Slot::kGradOut, i, h, d);
      }
    }
    Append(Slot::kGradQuery, sums);
  }

  void Attend(const std::vector<int64_t>& columns, Numbers<T>& scores,
              Numbers<T>& sums) {
    T max = -std::numeric_limits<T>::infinity(), sum = 0;
    for (const T s : scores) max = std::max(max, s);
    for (size_t n = 0; n < columns.size(); ++n) {
      const T p = std::exp(scores[n] - max);
      sum += p;
      for (int64_t d = 0; d < kDim; ++d) {
        sums[static_cast<size_t>(d)] += p * At(Slot::kValue, columns[n], 0, d);
      }
    }
    for (T& x : sums) x = columns.empty() ? 0 : x / sum;
    Append(Slot::kOut, sums);
  }

  void Append(Slot slot, const Numbers<T>& row) {
    results[slot].insert(results[slot].end(), row.begin(), row.end());
  }
};

double Rounded(DType dtype, double value) {
  std::byte bytes[8];
  WriteNumber(dtype, bytes, value);
  return ReadNumber(dtype, bytes);
}

// Sum of squares and greatest of errors, in units of the greatest number of the
// result: rows of gradients may be nothing but what cancelled.
struct Errors {
  double squares = 0, greatest = 0;

  void Add(double error) {
    squares += error * error;
    greatest = std::max(greatest, std::fabs(error));
  }
};

void ExpectNoWorse(const SmallCase& small) {
  const Plain<double> truth(small);
  const Plain<float> plain(small);
  for (const Slot slot : testing::ResultsOf(small.problem())) {
    if (!truth.results.contains(slot)) continue;
    const Numbers<double>& right = truth.results.at(slot);
    const Numbers<float>& other = plain.results.at(slot);
    const std::vector<double> found = small.Get(slot);
    ASSERT_EQ(found.size(), right.size());
    Errors kernels, sums;
    double sequence_head = 0;
    for (const double x : right)
      sequence_head = std::max(sequence_head, std::fabs(x));
    const DType dtype = small.problem()[slot].dtype;
    for (size_t n = 0; n < right.size(); ++n) {
      kernels.Add((found[n] - right[n]) / sequence_head);
      sums.Add((Rounded(dtype, double{other[n]}) - right[n]) / sequence_head);
    }
    EXPECT_LE(std::sqrt(kernels.squares), kMaxRms * std::sqrt(sums.squares))
        << Name(slot) << ", " << std::sqrt(kernels.squares / sums.squares);
    EXPECT_LE(kernels.greatest, kMaxGreatest * sums.greatest)
        << Name(slot) << ", " << kernels.greatest / sums.greatest;
  }
}

class TopKAccuracy : public ::testing::TestWithParam<int64_t> {};

TEST_P(TopKAccuracy, IsThatOfPlainSums) {
  const OnTarget target(GetParam());
  for (const Kind& kind : kKinds) {
    for (const char* start : {"fwd f32", "fwd bf16", "bwd f32", "bwd f16"}) {
      const std::string line =
          Str("{} h={}/1 d={} q={} k={} topk:200 scale:{}", start, kHeads, kDim,
              kRows, kColumns, kind.scale);
      SCOPED_TRACE(Str("{} {}", kind.name, line));
      Random random(11);
      SmallCase small(testing::ProblemOf(line));
      small.FillInputs(random);
      for (const Slot slot : {Slot::kQuery, Slot::kKey, Slot::kGradOut}) {
        for (int64_t n = 0; n < small.count(slot); ++n) {
          double x = small.Get(slot, n);
          if (kind.outliers > 0 && random.OneIn(kind.outliers)) x *= 100;
          if (slot == Slot::kGradOut) {
            x *= small.problem()[slot].dtype == DType::kF16
                     ? std::min(kind.gradients, 10.0)
                     : kind.gradients;
          }
          small.Put(slot, n, x);
        }
      }
      if (small.problem().direction == Direction::kBackward) {
        RunForwardTwin(small);
        testing::RunOn(kCpuTopKBackward, small);
      } else {
        testing::RunOn(kCpuTopKForward, small);
      }
      ExpectNoWorse(small);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, TopKAccuracy,
    ::testing::ValuesIn(testing::TargetsHere(ForwardTargets())),
    testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
