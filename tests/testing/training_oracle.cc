// SPDX-License-Identifier: Apache-2.0
// Whole calls against the documents' formulas.
#include "tests/testing/training_oracle.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "base/str.h"
#include "tests/testing/rounding.h"
#include "tests/testing/training_operands.h"

namespace flashacl::testing {

bool Has(int version, const TrainingCase& c) {
  const VersionFeatures has = FeaturesOf(c.sizes.packed(), version);
  const bool types = c.pse_type != 1 || c.q_start || c.kv_start;
  return (has.pse_types || !types) && (has.rope || c.rope_dim == 0) &&
         (has.sink || !c.sink) && (has.statistic_order || !c.same_as_input);
}

namespace {

// Where the eight copies of a row's maximum and sum are.
int64_t LaneOf(const Operands& o, size_t b, int64_t n, int64_t i) {
  const int64_t heads = o.sizes().heads;
  return 8 * (o.c.same_as_input ? (o.FirstRow(b) + i) * heads + n
                                : heads * o.FirstRow(b) + n * o.rows(b) + i);
}

// What both directions have, after the tensors' shapes.
template <typename Call>
void SetVersioned(const TrainingCase& c, Call& call) {
  call.pseType = c.pse_type;
  if (c.q_start) call.qStartIdx = {*c.q_start};
  if (c.kv_start) call.kvStartIdx = {*c.kv_start};
}

// Blocks must be evenly spaced, what is read by its shape need not be.
Form StatisticOf(const TrainingCase& c, Form form) {
  const bool by_shape = c.same_as_input || !c.sizes.packed();
  return by_shape ? MaybeSpread(c, std::move(form))
                  : MaybeSpaced(c, std::move(form));
}

}  // namespace

TrainingForward ForwardCall(const TrainingCase& c, int version) {
  TrainingForward call(c.sizes, version);
  SetCommon(c, call);
  SetVersioned(c, call);
  call.realShift = PseOf(c);
  if (c.same_as_input) call.softmaxOutLayout = "same_as_input";
  if (c.sink) call.sink = MaybeSpaced(c, {ACL_FLOAT, {c.sizes.heads}});
  if (c.rope_dim > 0) {
    call.queryRope = call.query;
    call.queryRope->dims[2] = c.rope_dim;
    call.keyRope = call.key;
    call.keyRope->dims[2] = c.rope_dim;
  }
  for (auto* form : {&call.query, &call.queryRope, &call.key, &call.keyRope,
                     &call.value, &call.attentionOut}) {
    if (*form) **form = MaybeSpread(c, **form);
  }
  for (auto* form : {&call.softmaxMax, &call.softmaxSum}) {
    **form = StatisticOf(c, **form);
  }
  return call;
}

namespace {

void ExpectForwardOf(const TrainingCase& c, int version, Random& random) {
  const TrainingForward call = ForwardCall(c, version);
  TrainingFixture made(call);
  const auto& t = made.t;
  Operands o{.c = c,
             .query = t.query,
             .key = t.key,
             .value = t.value,
             .query_rope = t.queryRope,
             .key_rope = t.keyRope,
             .pse = t.realShift,
             .drop = t.dropMask,
             .mask = t.attenMask,
             .sink = t.sink};
  FillOperands(o, random);
  ASSERT_TRUE(made.Run());

  std::vector<double> out(static_cast<size_t>(t.attentionOut->elements()), 0);
  std::vector<double> max(static_cast<size_t>(t.softmaxMax->elements()), 0);
  std::vector<double> sum(max.size(), 0);
  ForRows(c.sizes, [&](size_t b, int64_t n, int64_t i) {
    const RowResult row = Forward(o, b, n, i);
    std::ranges::copy(row.out, out.begin() + o.QueryAt(b, n, i, c.sizes.v_dim));
    std::fill_n(max.begin() + LaneOf(o, b, n, i), 8, row.max);
    std::fill_n(sum.begin() + LaneOf(o, b, n, i), 8, row.sum);
  });
  const double scale = ScaleOf(c);
  ExpectNear(*t.attentionOut, out, 2 / c.keep,
             ProbTermError(c.sizes.type, c.inner_precise == 1));
  ExpectNear(*t.softmaxMax, max, scale);
  ExpectNear(*t.softmaxSum, sum, scale);
}

}  // namespace

void ExpectForward(const TrainingCase& c, Random& random) {
  for (int v = 1; v <= VersionsOf(c.sizes.packed()); ++v) {
    if (c.version == 0 ? !Has(v, c) : c.version != v) continue;
    SCOPED_TRACE(::testing::Message() << "version " << v);
    ExpectForwardOf(c, v, random);
  }
}

namespace {

// The gradients, each in order of its tensor's shape.
struct Gradients {
  std::vector<double> query, query_rope, key, key_rope, value, pse, sink;
  // Magnitudes of all terms of what sums P or dS times rows or keys.
  struct Terms {
    std::vector<double> query, query_rope, key, key_rope, value;
  } terms;
};

struct BackwardRun {
  const Operands& o;
  const TrainingBackward::Tensors& t;

  int64_t Lane(size_t b, int64_t n, int64_t i) const {
    return LaneOf(o, b, n, i);
  }

  void FillForwardResults(Random& random) const {
    FillRows(o.sizes(), t.dy, Sum(o.sizes().rows), random);
    FillRows(o.sizes(), t.attentionIn, Sum(o.sizes().rows), random);
    ForRows(o.sizes(), [&](size_t b, int64_t n, int64_t i) {
      RowResult row = Forward(o, b, n, i);
      const bool whole = std::fabs(row.max) < FLT_MAX && row.sum > 0;
      if (o.c.foreign && whole) {
        row.max += random.Fraction() - 0.5;
        row.sum *= 0.5 + random.Fraction();
      }
      for (int64_t lane = 0; lane < 8; ++lane) {
        t.softmaxMax->SetNth(Lane(b, n, i) + lane, row.max);
        t.softmaxSum->SetNth(Lane(b, n, i) + lane, row.sum);
      }
      if (o.c.foreign) return;
      for (int64_t d = 0; d < o.sizes().v_dim; ++d) {
        t.attentionIn->SetNth(o.QueryAt(b, n, i, o.sizes().v_dim) + d,
                              row.out[static_cast<size_t>(d)]);
      }
    });
  }

  // sum_d a[first + d] * x[other + d], over the channels of value
  double Dot(const DeviceTensor& a, int64_t first, const DeviceTensor& x,
             int64_t other) const {
    double sum = 0;
    for (int64_t d = 0; d < o.sizes().v_dim; ++d) {
      sum += a.Nth(first + d) * x.Nth(other + d);
    }
    return sum;
  }

  // to[first + d] += factor * from[other + d], for all channels d
  struct Channels {
    int64_t first, other, count;
  };
  static void Add(std::vector<double>& to, std::vector<double>& terms,
                  double factor, const DeviceTensor* from, const Channels& at) {
    for (int64_t d = 0; d < at.count; ++d) {
      const double term = factor * from->Nth(at.other + d);
      to[static_cast<size_t>(at.first + d)] += term;
      terms[static_cast<size_t>(at.first + d)] += std::fabs(term);
    }
  }

  void AddPse(Gradients& g, size_t b, int64_t n, int64_t i, int64_t j,
              double ds) const {
    const auto sequence = static_cast<int64_t>(b);
    const auto at = [&](int64_t index) -> double& {
      return g.pse[static_cast<size_t>(index)];
    };
    const double scale = static_cast<float>(o.c.scale);
    const double factor = o.c.pse_type == 1 ? scale * ds : ds;
    switch (o.c.pse) {
      case PseForm::kEvery:
      case PseForm::kShared:
      case PseForm::kEveryOnce:
      case PseForm::kSharedOnce:
        at(o.PseIndex(b, n, i, j)) += factor;
        break;
      case PseForm::kSlopes:
        at(n) -= ds * o.Distance(b, i, j);
        break;
      case PseForm::kSlopesEach:
        at(sequence * o.sizes().heads + n) -= ds * o.Distance(b, i, j);
        break;
      default:
        break;
    }
  }

  // What score (i, j) adds, with its p and ds.
  void AddScore(Gradients& g, size_t b, int64_t n, int64_t i, int64_t j,
                double p, double ds) const {
    const double scaled = static_cast<float>(o.c.scale) * ds;
    const int64_t v_dim = o.sizes().v_dim, dim = o.sizes().dim;
    const int64_t rope = o.c.rope_dim;
    const auto q = [&](int64_t d) { return o.QueryAt(b, n, i, d); };
    const auto k = [&](int64_t d) { return o.KeyAt(b, n, j, d); };
    Add(g.value, g.terms.value, p * o.Keep(b, n, i, j), t.dy,
        {k(v_dim), q(v_dim), v_dim});
    Add(g.query, g.terms.query, scaled, t.keyIn, {q(dim), k(dim), dim});
    Add(g.key, g.terms.key, scaled, t.query, {k(dim), q(dim), dim});
    Add(g.query_rope, g.terms.query_rope, scaled, t.keyInRope,
        {q(rope), k(rope), rope});
    Add(g.key_rope, g.terms.key_rope, scaled, t.queryRope,
        {k(rope), q(rope), rope});
    if (o.c.pse_gradient) AddPse(g, b, n, i, j, ds);
  }

  void AddRow(Gradients& g, size_t b, int64_t n, int64_t i) const {
    const double max = t.softmaxMax->Nth(Lane(b, n, i));
    const double sum = t.softmaxSum->Nth(Lane(b, n, i));
    const int64_t v_dim = o.sizes().v_dim;
    const int64_t row = o.QueryAt(b, n, i, v_dim);
    const double delta = Dot(*t.dy, row, *t.attentionIn, row);
    double p_dp = 0;
    for (int64_t j = 0; j < o.columns(b); ++j) {
      if (!o.Sees(b, n, i, j)) continue;
      const double p = std::exp(o.Score(b, n, i, j) - max) / sum;
      const double dp = Dot(*t.dy, row, *t.value, o.KeyAt(b, n, j, v_dim)) *
                        o.Keep(b, n, i, j);
      p_dp += p * dp;
      AddScore(g, b, n, i, j, p, p * (dp - delta));
    }
    if (o.sink == nullptr || o.columns(b) == 0) return;
    g.sink[static_cast<size_t>(n)] -=
        std::exp(o.sink->Get({n}) - max) / sum * p_dp;
  }
};

bool MayRoundProbs(const TrainingCase& c) {
  return c.sizes.type == ACL_BF16 && c.inner_precise == 1;
}

std::vector<double> Zeros(const DeviceTensor* tensor) {
  return std::vector<double>(
      tensor == nullptr ? 0 : static_cast<size_t>(tensor->elements()), 0);
}

}  // namespace

TrainingBackward BackwardCall(const TrainingCase& c, int version) {
  TrainingBackward call(c.sizes, version);
  SetCommon(c, call);
  SetVersioned(c, call);
  call.pseShift = PseOf(c);
  if (c.same_as_input) call.softmaxInLayout = "same_as_input";
  if (c.pse_gradient) call.dpse = call.pseShift;
  if (c.sink) call.sinkIn = MaybeSpaced(c, {ACL_FLOAT, {c.sizes.heads}});
  if (c.sink && c.sink_gradient) call.dsink = call.sinkIn;
  if (c.rope_dim > 0) {
    call.queryRope = call.query;
    call.queryRope->dims[2] = c.rope_dim;
    call.keyInRope = call.keyIn;
    call.keyInRope->dims[2] = c.rope_dim;
    call.dqRope = call.queryRope;
    call.dkRope = call.keyInRope;
  }
  for (auto* form : {&call.query, &call.queryRope, &call.keyIn, &call.keyInRope,
                     &call.value, &call.dy, &call.attentionIn, &call.dq,
                     &call.dqRope, &call.dk, &call.dkRope, &call.dv}) {
    if (*form) **form = MaybeSpread(c, **form);
  }
  for (auto* form : {&call.softmaxMax, &call.softmaxSum}) {
    **form = StatisticOf(c, **form);
  }
  return call;
}

namespace {

void ExpectBackwardOf(const TrainingCase& c, int version, Random& random) {
  const TrainingBackward call = BackwardCall(c, version);
  TrainingFixture made(call);
  const auto& t = made.t;
  Operands o{.c = c,
             .query = t.query,
             .key = t.keyIn,
             .value = t.value,
             .query_rope = t.queryRope,
             .key_rope = t.keyInRope,
             .pse = t.pseShift,
             .drop = t.dropMask,
             .mask = t.attenMask,
             .sink = t.sinkIn,
             .backward = true};
  FillOperands(o, random);
  const BackwardRun run{o, t};
  run.FillForwardResults(random);
  ASSERT_TRUE(made.Run());

  Gradients g{Zeros(t.dq), Zeros(t.dqRope), Zeros(t.dk),    Zeros(t.dkRope),
              Zeros(t.dv), Zeros(t.dpse),   Zeros(t.dsink), {}};
  g.terms = {g.query, g.query_rope, g.key, g.key_rope, g.value};
  if (t.dsink == nullptr) g.sink.resize(static_cast<size_t>(c.sizes.heads));
  ForRows(c.sizes,
          [&](size_t b, int64_t n, int64_t i) { run.AddRow(g, b, n, i); });
  const double scale = ScaleOf(c) * 10;
  const auto expect_sums = [&](const DeviceTensor* tensor,
                               const std::vector<double>& sums,
                               std::vector<double>& terms) {
    if (tensor == nullptr) return;
    // Each P or dS is rounded to bf16 once, if at all.
    for (double& term : terms) {
      term *= MayRoundProbs(c) ? kBf16Roundoff : 0;
    }
    ExpectNear(*tensor, sums, scale, kTermError, terms);
  };
  expect_sums(t.dq, g.query, g.terms.query);
  expect_sums(t.dk, g.key, g.terms.key);
  expect_sums(t.dv, g.value, g.terms.value);
  expect_sums(t.dqRope, g.query_rope, g.terms.query_rope);
  expect_sums(t.dkRope, g.key_rope, g.terms.key_rope);
  if (t.dsink != nullptr) ExpectNear(*t.dsink, g.sink, scale);
  if (t.dpse != nullptr && !Compressed(c)) ExpectNear(*t.dpse, g.pse, scale);
}

}  // namespace

void ExpectBackward(const TrainingCase& c, Random& random) {
  for (int v = 1; v <= VersionsOf(c.sizes.packed()); ++v) {
    if (c.version == 0 ? !Has(v, c) : c.version != v) continue;
    SCOPED_TRACE(::testing::Message() << "version " << v);
    ExpectBackwardOf(c, v, random);
  }
}

std::string ToString(const TrainingCase& c) {
  const TrainingSizes& s = c.sizes;
  std::string text =
      Str("{} V{} type {} q {} kv {} tails {}/{} heads {}/{} dims {}+{}/{} "
          "mask {} ({}) "
          "mode {} pre {} next {}",
          s.layout, c.version, static_cast<int>(s.type), Join(s.rows, ","),
          Join(s.columns, ","), s.row_tail, s.column_tail, s.heads, s.kv_heads,
          s.dim, c.rope_dim, s.v_dim, static_cast<int>(c.mask),
          static_cast<int>(c.mask_type), c.mode, c.pre, c.next);
  if (c.prefix) text += Str(" prefix {}", Join(*c.prefix, ","));
  text += Str(" pse {} type {} starts {}/{} drop {} keep {} scale {}",
              static_cast<int>(c.pse), c.pse_type, c.q_start.value_or(0),
              c.kv_start.value_or(0), c.dropout, c.keep, c.scale);
  text += Str(" spread {} sink {} dsink {} dpse {} as input {} foreign {}",
              c.spread, c.sink, c.sink_gradient, c.pse_gradient,
              c.same_as_input, c.foreign);
  return text;
}

}  // namespace flashacl::testing
