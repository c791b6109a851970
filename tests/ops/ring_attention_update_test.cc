// SPDX-License-Identifier: Apache-2.0
// aclnnRingAttentionUpdate, V2: by hand, random calls against fp64.
// Refusals are in ring_attention_update_refusal_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/random.h"
#include "tests/testing/random_tensors.h"
#include "tests/testing/ring_attention_call.h"

namespace flashacl::testing {
namespace {

using Values = std::vector<double>;
using RingAttentionUpdateTest = RuntimeTest;
using ring::Call;

// A statistic of one row.
struct Eight : ElementTensor {
  explicit Eight(double value) : ElementTensor(ACL_FLOAT, {1, 1, 1, 8}) {
    Set(0, value);
    for (int64_t n = 1; n < 8; ++n) Set(n, -1234);  // nobody reads these
  }
};

struct OneRow {
  ElementTensor out{ACL_FLOAT, {1, 1, 2}};
  Eight max{7}, sum{7};

  // Merges a row of two parts.
  void Run(Values prev, double prev_max, double prev_sum, Values cur,
           double cur_max, double cur_sum) {
    ElementTensor one(ACL_FLOAT, {1, 1, 2}), other(ACL_FLOAT, {1, 1, 2});
    for (int64_t n = 0; n < 2; ++n) {
      one.Set(n, prev[static_cast<size_t>(n)]);
      other.Set(n, cur[static_cast<size_t>(n)]);
    }
    const Eight m1(prev_max), l1(prev_sum), m2(cur_max), l2(cur_sum);
    EXPECT_TRUE(
        Call({&one, &m1, &l1, &other, &m2, &l2, nullptr, &out, &max, &sum},
             "SBH")
            .Run());
    for (const double value : max.Values()) EXPECT_EQ(value, max.Values()[0]);
    for (const double value : sum.Values()) EXPECT_EQ(value, sum.Values()[0]);
  }
  double merged_max() const { return max.Values()[0]; }
  double merged_sum() const { return sum.Values()[0]; }
};

TEST_F(RingAttentionUpdateTest, TheDocumentsExample) {
  OneRow row;
  row.Run({4, -4}, 0, 1, {8, -8}, std::log(2), 1.5);
  EXPECT_NEAR(row.out.Values()[0], 7, 1e-5);
  EXPECT_NEAR(row.out.Values()[1], -7, 1e-5);
  EXPECT_EQ(row.merged_max(), double{static_cast<float>(std::log(2))});
  EXPECT_NEAR(row.merged_sum(), 2, 1e-6);
}

TEST_F(RingAttentionUpdateTest, PartsThatSawNothingAreIdentities) {
  const Values garbage{std::nan(""), HUGE_VAL};
  const Values rows{0.1f, -0.0};
  const struct {
    double max, sum;
  } kBlanks[] = {{-FLT_MAX, FLT_MAX}, {-HUGE_VAL, 0}, {-HUGE_VAL, FLT_MAX}};
  const struct {
    double max, sum;
  } kParts[] = {{0, 3}, {-1e38, 7.5}, {3e38, 1}, {-FLT_MAX, 2}};
  for (const auto& blank : kBlanks) {
    for (const auto& part : kParts) {
      OneRow one, other;
      one.Run(garbage, blank.max, blank.sum, rows, part.max, part.sum);
      other.Run(rows, part.max, part.sum, garbage, blank.max, blank.sum);
      for (const OneRow* row : {&one, &other}) {
        EXPECT_EQ(row->out.Values(), rows);
        EXPECT_TRUE(std::signbit(row->out.Values()[1]));
        EXPECT_EQ(row->merged_max(), double{static_cast<float>(part.max)});
        EXPECT_EQ(row->merged_sum(), part.sum);
      }
    }
    OneRow row;
    row.Run(garbage, blank.max, blank.sum, garbage, -FLT_MAX, FLT_MAX);
    EXPECT_EQ(row.out.Values(), (Values{0, 0}));
    EXPECT_EQ(row.merged_max(), -FLT_MAX);
    EXPECT_EQ(row.merged_sum(), FLT_MAX);
  }
}

TEST_F(RingAttentionUpdateTest, SumsOfZeroGiveZero) {
  OneRow row;
  row.Run({3, 4}, 1, 0, {5, std::nan("")}, 2, 0);
  EXPECT_EQ(row.out.Values(), (Values{0, 0}));
  EXPECT_EQ(row.merged_max(), 2);
  EXPECT_EQ(row.merged_sum(), 0);
}

// A part of a row, or a row.
struct Part {
  double max = 0, sum = 0;

  bool blank() const { return max <= -FLT_MAX && sum >= FLT_MAX; }
};

// A random call, its tensors filled, and what it should write.
class RandomCall {
 public:
  explicit RandomCall(uint64_t seed) : random_(seed) {
    packed_ = random_.OneIn(2);
    heads_ = random_.OneIn(8) ? random_.Within(60, 70) : random_.Within(1, 5);
    channels_ =
        random_.OneIn(12) ? random_.Within(500, 1100) : random_.Within(1, 140);
    if (heads_ > 5) channels_ = random_.Within(1, 20);
    tokens_ = random_.Within(1, 30);
    batch_ = packed_ ? 1 : random_.Within(1, 3);
    constexpr aclDataType kFloats[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    type_ = kFloats[random_.Within(0, 2)];
    in_place_ = random_.OneIn(4);
    MakeTensors();
    MakeCall();
    Fill();
  }

  std::string ToString() const {
    std::string text =
        Str("in place {} ends [{}]", in_place_, Join(ends_, ", "));
    for (const auto& one : call_.texts) text += Str(" \"{}\"", *one);
    return text + tensors_.ToString();
  }

  void Check() {
    tensors_.BeforeCall();
    Expect();
    ASSERT_TRUE(call_.Run());
    for (const Expected& one : expected_) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectWithin(*one.tensor, one.n, one.value, one.slack));
    }
    tensors_.ExpectOnlyWritten(outputs_);
  }

 private:
  struct Expected {
    const ElementTensor* tensor;
    int64_t n;
    double value, slack;
  };

  ElementTensor* NewRows(bool input) {
    Form form{type_, {tokens_, batch_, heads_ * channels_}};
    if (packed_) form.dims = {tokens_, heads_, channels_};
    return tensors_.New(std::move(form), input);
  }
  ElementTensor* NewStatistic(bool input) {
    Form form{ACL_FLOAT, {batch_, heads_, tokens_, 8}};
    if (packed_) form.dims = {tokens_, heads_, 8};
    return tensors_.New(std::move(form), input);
  }

  void MakeTensors() {
    for (size_t part = 0; part < 2; ++part) {
      // What is written cannot repeat.
      const bool input = !in_place_ || part == 1;
      out_[part] = NewRows(input);
      max_[part] = NewStatistic(input);
      sum_[part] = NewStatistic(input);
    }
    if (in_place_) {
      outputs_ = {out_[0], max_[0], sum_[0]};
    } else {
      outputs_ = {NewRows(false), NewStatistic(false), NewStatistic(false)};
    }
  }

  void MakeCall() {
    if (packed_) {
      ends_ = {0};
      while (ends_.back() < tokens_) {
        ends_.push_back(
            std::min(tokens_, ends_.back() + random_.Within(0, tokens_)));
      }
      ElementTensor* const ends = tensors_.New(
          {ACL_INT64, {static_cast<int64_t>(ends_.size())}}, false);
      for (size_t n = 0; n < ends_.size(); ++n) {
        ends->Set(static_cast<int64_t>(n), static_cast<double>(ends_[n]));
      }
      ends_tensor_ = ends;
    }
    const std::vector<GivenTensor> tensors{
        out_[0], max_[0],      sum_[0],     out_[1],     max_[1],
        sum_[1], ends_tensor_, outputs_[0], outputs_[1], outputs_[2]};
    constexpr const char* kOrders[] = {"", "SBH", "TND", "anything"};
    const char* const layout = packed_ ? "TND" : "SBH";
    if (random_.OneIn(2)) {
      call_ = Call(tensors, layout);
      return;
    }
    const char* const order = kOrders[random_.Within(0, packed_ ? 2 : 3)];
    by_tokens_ = packed_ && std::string(order) == "TND";
    call_ = Call(tensors, layout, order);
  }

  void Fill() {
    const double spread = random_.OneIn(2) ? 4 : 200;
    for (size_t part = 0; part < 2; ++part) {
      for (int64_t n = 0; n < out_[part]->count(); ++n) {
        out_[part]->Set(n, random_.Fraction() * 2 - 1);
      }
      for (int64_t n = 0; n < max_[part]->count(); ++n) {
        max_[part]->Set(n, spread * (random_.Fraction() - 0.5));
        sum_[part]->Set(n, 1 + 100 * random_.Fraction());
      }
      // Only where no other row has the same memory.
      const auto distinct = [](const ElementTensor* tensor) {
        return std::ranges::count(tensor->form().strides, 0) == 0;
      };
      if (!distinct(max_[part]) || !distinct(sum_[part])) continue;
      for (int64_t row = 0; row < max_[part]->count() / 8; ++row) {
        if (!random_.OneIn(4)) continue;
        max_[part]->Set(row * 8, -FLT_MAX);
        sum_[part]->Set(row * 8, FLT_MAX);
      }
    }
  }

  // Element 0 of the eight of a row.
  int64_t StatisticOf(int64_t sequence, int64_t token, int64_t head) const {
    if (!packed_) return ((sequence * heads_ + head) * tokens_ + token) * 8;
    if (by_tokens_) return (token * heads_ + head) * 8;
    size_t n = 1;
    while (ends_[n] <= token) ++n;
    const int64_t first = ends_[n - 1];
    const int64_t length = ends_[n] - first;
    return (heads_ * first + head * length + token - first) * 8;
  }

  int64_t ElementOf(int64_t sequence, int64_t token, int64_t head) const {
    return ((token * batch_ + sequence) * heads_ + head) * channels_;
  }

  void Expect() {
    for (int64_t sequence = 0; sequence < batch_; ++sequence) {
      for (int64_t token = 0; token < tokens_; ++token) {
        for (int64_t head = 0; head < heads_; ++head) {
          ExpectRow(StatisticOf(sequence, token, head),
                    ElementOf(sequence, token, head));
        }
      }
    }
  }

  // With u = 2^-24 and x the difference of the maxima: a part's sum times an
  // exponential is (x + 3) u off, in shares of it, so the whole sum is
  // (x + 4) u off. Weights are quotients of these, (2 x + 8) u off at most; a
  // row's two terms round by 2 u more.
  void ExpectRow(int64_t at, int64_t element) {
    constexpr double kRounding = 0x1p-24;
    Part parts[2];
    for (size_t n = 0; n < 2; ++n) {
      parts[n] = {max_[n]->Get(at).real, sum_[n]->Get(at).real};
    }
    Part whole{-FLT_MAX, FLT_MAX};
    double weights[2] = {0, 0};
    const bool both = !parts[0].blank() && !parts[1].blank();
    const double x = both ? std::fabs(parts[0].max - parts[1].max) : 0;
    if (!parts[0].blank() || !parts[1].blank()) {
      whole = {std::max(parts[0].max, parts[1].max), 0};
      for (size_t n = 0; n < 2; ++n) {
        if (parts[n].blank()) continue;
        weights[n] = parts[n].sum * std::exp(parts[n].max - whole.max);
        whole.sum += weights[n];
      }
      for (double& weight : weights) weight /= whole.sum;
    }
    for (int64_t n = 0; n < 8; ++n) {
      expected_.push_back({outputs_[1], at + n, whole.max, 0});
      expected_.push_back({outputs_[2], at + n, whole.sum,
                           both ? (x + 4) * whole.sum * kRounding : 0});
    }
    for (int64_t d = 0; d < channels_; ++d) {
      double value = 0, size = 0;
      for (size_t n = 0; n < 2; ++n) {
        if (parts[n].blank()) continue;
        const double one = out_[n]->Get(element + d).real;
        value += weights[n] * one;
        size += std::fabs(one);
      }
      expected_.push_back({outputs_[0], element + d, value,
                           both ? (2 * x + 10) * size * kRounding : 0});
    }
  }

  Random random_;
  bool packed_ = false, by_tokens_ = false, in_place_ = false;
  int64_t tokens_ = 1, batch_ = 1, heads_ = 1, channels_ = 1;
  aclDataType type_ = ACL_FLOAT;
  std::vector<int64_t> ends_;
  RandomTensors tensors_{random_};
  ElementTensor *out_[2] = {}, *max_[2] = {}, *sum_[2] = {};
  const ElementTensor* ends_tensor_ = nullptr;
  std::vector<const ElementTensor*> outputs_;
  std::vector<Expected> expected_;
  ElementwiseCall call_;
};

TEST_F(RingAttentionUpdateTest, RandomCallsAreThoseOfFp64) {
  CheckRandomCalls<RandomCall>(500);
}

// Rows are merged and nothing else is touched, whatever the ends are.
TEST_F(RingAttentionUpdateTest, EndsThatAreNoneAreHarmless) {
  ElementTensor rows(ACL_FLOAT, {5, 2, 3}), max(ACL_FLOAT, {5, 2, 8}),
      sum(ACL_FLOAT, {5, 2, 8});
  for (int64_t n = 0; n < rows.count(); ++n) {
    rows.Set(n, static_cast<double>(n));
  }
  for (int64_t n = 0; n < max.count(); ++n) {
    max.Set(n, 1);
    sum.Set(n, 2);
  }
  const std::vector<std::vector<double>> kEnds{
      {0, 9, 4}, {3}, {-7, 2, -1, 4}, {0, 0, 2}, {5, 3, 1, 0}, {1e17, -1e17}};
  for (const auto& ends : kEnds) {
    ElementTensor tensor(ACL_INT64, {static_cast<int64_t>(ends.size())});
    for (size_t n = 0; n < ends.size(); ++n) {
      tensor.Set(static_cast<int64_t>(n), ends[n]);
    }
    const ElementTensor out(ACL_FLOAT, {5, 2, 3}),
        max_out(ACL_FLOAT, {5, 2, 8}), sum_out(ACL_FLOAT, {5, 2, 8});
    EXPECT_TRUE(Call({&rows, &max, &sum, &rows, &max, &sum, &tensor, &out,
                      &max_out, &sum_out},
                     "TND")
                    .Run());
    EXPECT_EQ(out.Values(), rows.Values());
    EXPECT_EQ(max_out.Values(), max.Values());
    EXPECT_EQ(sum_out.Values(), Values(80, 4));
  }
}

}  // namespace
}  // namespace flashacl::testing
