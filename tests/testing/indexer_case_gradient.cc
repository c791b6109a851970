// SPDX-License-Identifier: Apache-2.0
// Gradients of the lightning indexer in fp64.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/testing/indexer_case.h"
#include "tests/testing/rounding.h"

namespace flashacl::testing {
namespace {

double Relu(double x) { return std::max(x, 0.0); }

}  // namespace

std::vector<std::pair<int64_t, int64_t>> IndexerCase::ListOf(
    const IndexedSequence& sequence, int64_t row) const {
  std::vector<std::pair<int64_t, int64_t>> list;
  const int64_t seen = Seen(sequence, row);
  const int64_t most = causal_ ? std::min(width_, seen) : width_;
  for (int64_t u = 0; u < most; ++u) {
    const int64_t j = Index(row, u);
    if (j < 0) break;
    if (j < seen) list.emplace_back(sequence.keys[static_cast<size_t>(j)], u);
  }
  return list;
}

// With u = 2^-24: factors ds w are rounded once, and sums of keys are sums over
// heads, then over rows and entries. Factors of rows of bf16 may be two terms
// of bf16 (docs/notes/0024), which lose 2^-17 of each. Where a product's sign
// is not certain all that hangs on it may be there or not.
void IndexerCase::AddRow(const IndexedSequence& sequence, int64_t row) {
  const auto list = ListOf(sequence, row);
  const auto terms = static_cast<int64_t>(list.size()) + 1;
  const bool two_terms = !exact_ && type_ == ACL_BF16 && channels_ % 32 == 0;
  const double lost = two_terms ? 0x1p-17 : 0;
  const auto add = [&](Bounded& to, double value, int64_t count, double size,
                       double doubt) {
    to.value += value;
    to.error += (exact_ ? 0 : SumError(count, size)) + doubt;
  };
  for (const auto& [key, u] : list) {
    const double ds =
        numbers_.grad_scores[static_cast<size_t>(row * width_ + u)];
    for (int64_t h = 0; h < heads_; ++h) {
      const auto at = static_cast<size_t>(row * heads_ + h);
      const Bounded dot = DotOf(row, h, key);
      const double relu = Relu(dot.value);
      add(grads_[2][at], ds * relu, terms, std::fabs(ds) * (relu + dot.error),
          std::fabs(ds) * dot.error);
      const bool on = dot.value > 0;
      const bool sure = std::fabs(dot.value) > dot.error || dot.error == 0;
      const double factor = ds * numbers_.weights[at];
      for (int64_t d = 0; d < channels_; ++d) {
        const auto q =
            at * static_cast<size_t>(channels_) + static_cast<size_t>(d);
        const auto k = static_cast<size_t>(key * channels_ + d);
        const double of_query = factor * numbers_.key[k];
        const double of_key = factor * numbers_.query[q];
        const auto size = [&](double value) {
          return on || !sure ? std::fabs(value) : 0;
        };
        add(grads_[0][q], on ? of_query : 0, terms, size(of_query),
            lost * size(of_query) + (sure ? 0 : std::fabs(of_query)));
        add(grads_[1][k], on ? of_key : 0,
            heads_ + 1 + key_terms_[static_cast<size_t>(key)], size(of_key),
            lost * size(of_key) + (sure ? 0 : std::fabs(of_key)));
      }
    }
  }
}

void IndexerCase::CheckGradient() {
  tensors_.BeforeCall();
  ASSERT_TRUE(call_.Run());
  for (const ElementTensor* result : results_) {
    grads_.emplace_back(static_cast<size_t>(result->count()));
  }
  const auto for_rows = [&](auto body) {
    for (const IndexedSequence& sequence : sequences_) {
      for (int64_t n = 0; n < sequence.rows; ++n) {
        body(sequence, sequence.first_row + n);
      }
    }
  };
  key_terms_.assign(static_cast<size_t>(key_rows_), 0);
  for_rows([&](const IndexedSequence& sequence, int64_t row) {
    for (const auto& [key, u] : ListOf(sequence, row)) {
      ++key_terms_[static_cast<size_t>(key)];
    }
  });
  for_rows([&](const IndexedSequence& sequence, int64_t row) {
    AddRow(sequence, row);
  });
  for (size_t t = 0; t < results_.size(); ++t) {
    for (int64_t n = 0; n < results_[t]->count(); ++n) {
      const Bounded& grad = grads_[t][static_cast<size_t>(n)];
      ExpectWithin(*results_[t], n, grad.value, grad.error);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "result " << t;
    }
  }
  tensors_.ExpectOnlyWritten(results_);
}

double IndexerCase::LossAt(double step) const {
  const auto moved = [&](const std::vector<double>& at,
                         const std::vector<double>& along, int64_t n) {
    return at[static_cast<size_t>(n)] + step * along[static_cast<size_t>(n)];
  };
  double loss = 0;
  for (const IndexedSequence& sequence : sequences_) {
    for (int64_t n = 0; n < sequence.rows; ++n) {
      const int64_t row = sequence.first_row + n;
      for (const auto& [key, u] : ListOf(sequence, row)) {
        double score = 0;
        for (int64_t h = 0; h < heads_; ++h) {
          double dot = 0;
          for (int64_t d = 0; d < channels_; ++d) {
            dot += moved(numbers_.query, direction_of_.query,
                         (row * heads_ + h) * channels_ + d) *
                   moved(numbers_.key, direction_of_.key, key * channels_ + d);
          }
          score +=
              moved(numbers_.weights, direction_of_.weights, row * heads_ + h) *
              Relu(dot);
        }
        loss +=
            numbers_.grad_scores[static_cast<size_t>(row * width_ + u)] * score;
      }
    }
  }
  return loss;
}

// What results round to is half a unit in the last place of each.
Bounded IndexerCase::Derivative(Random& random) {
  Bounded sum;
  const double unit = type_ == ACL_FLOAT16 ? 0x1p-11 : 0x1p-8;
  std::vector<double>* const along[] = {
      &direction_of_.query, &direction_of_.key, &direction_of_.weights};
  for (size_t t = 0; t < results_.size(); ++t) {
    for (const double value : results_[t]->Values()) {
      along[t]->push_back(random.Fraction() - 0.5);
      sum.value += value * along[t]->back();
      sum.error +=
          (unit * std::fabs(value) + 0x1p-24) * std::fabs(along[t]->back());
    }
  }
  return sum;
}

}  // namespace flashacl::testing
