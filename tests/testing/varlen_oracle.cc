// SPDX-License-Identifier: Apache-2.0
// Whole calls against the documents' formulas.
#include "tests/testing/varlen_oracle.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "base/str.h"
#include "tests/testing/varlen_operands.h"

namespace flashacl::testing {

void ExpectForward(const VarLenCase& c, Random& random) {
  VarLenForward call(c.sizes);
  SetCommon(c, call);
  call.realShift = PseOf(c);
  for (auto* form : {&call.query, &call.key, &call.value, &call.attentionOut}) {
    **form = MaybeSpread(c, **form, {1, 0, 2});
  }
  for (auto* form : {&call.softmaxMax, &call.softmaxSum}) {
    **form = MaybeSpaced(c, **form);
  }
  Caller caller(aclnnFlashAttentionVarLenScore);
  const VarLenForward::Tensors t = call.Make(caller);
  Operands o{.c = c,
             .query = t.query,
             .key = t.key,
             .value = t.value,
             .pse = t.realShift,
             .drop = t.dropMask,
             .mask = t.attenMask};
  FillOperands(o, random);
  ASSERT_TRUE(caller.Run([&](uint64_t* size, aclOpExecutor** executor) {
    return call.Plan(t, size, executor);
  }));

  const VarLenSizes& s = c.sizes;
  std::vector<double> out(static_cast<size_t>(t.attentionOut->elements()), 0);
  std::vector<double> max(static_cast<size_t>(t.softmaxMax->elements()), 0);
  std::vector<double> sum(max.size(), 0);
  ForRows(s, [&](size_t b, int64_t n, int64_t i) {
    const RowResult row = Forward(o, b, n, i);
    const int64_t first = ((o.FirstRow(b) + i) * s.heads + n) * s.v_dim;
    std::copy(row.out.begin(), row.out.end(), out.begin() + first);
    const int64_t lane = 8 * (s.heads * o.FirstRow(b) + n * s.rows[b] + i);
    std::fill_n(max.begin() + lane, 8, row.max);
    std::fill_n(sum.begin() + lane, 8, row.sum);
  });
  const double scale = ScaleOf(c);
  ExpectNear(*t.attentionOut, out, 2 / c.keep);
  ExpectNear(*t.softmaxMax, max, scale);
  ExpectNear(*t.softmaxSum, sum, scale);
}

namespace {

// The gradients, each in order of its tensor's shape.
struct Gradients {
  std::vector<double> query, query_rope, key, key_rope, value, pse, sink;
};

struct BackwardRun {
  const Operands& o;
  const VarLenBackward::Tensors& t;

  // Where the eight copies of a row's maximum and sum are.
  int64_t Lane(size_t b, int64_t n, int64_t i) const {
    const int64_t heads = o.sizes().heads;
    return 8 * (o.c.same_as_input ? (o.FirstRow(b) + i) * heads + n
                                  : heads * o.FirstRow(b) + n * o.rows(b) + i);
  }

  void FillForwardResults(Random& random) const {
    FillRows(t.dy, Sum(o.sizes().rows), random);
    FillRows(t.attentionIn, Sum(o.sizes().rows), random);
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
        t.attentionIn->Set({o.FirstRow(b) + i, n, d},
                           row.out[static_cast<size_t>(d)]);
      }
    });
  }

  // sum_d a[t, n, d] * x[u, g, d]
  static double Dot(const DeviceTensor& a, int64_t row, int64_t n,
                    const DeviceTensor& x, int64_t other, int64_t g) {
    double sum = 0;
    for (int64_t d = 0; d < a.form().dims[2]; ++d) {
      sum += a.Get({row, n, d}) * x.Get({other, g, d});
    }
    return sum;
  }

  // to[row, n, :] += factor * from[other, g, :]
  struct Place {
    const DeviceTensor* tensor;
    int64_t row, head;
  };
  static void Add(std::vector<double>& to, const Place& at, double factor,
                  const Place& from) {
    if (at.tensor == nullptr || from.tensor == nullptr) return;
    const auto& dims = at.tensor->form().dims;
    for (int64_t d = 0; d < dims[2]; ++d) {
      to[static_cast<size_t>((at.row * dims[1] + at.head) * dims[2] + d)] +=
          factor * from.tensor->Get({from.row, from.head, d});
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
        at(o.Index(b, n, i, j)) += factor;
        break;
      case PseForm::kShared:
        at(o.SharedIndex(b, n, i, j)) += factor;
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

  void AddRow(Gradients& g, size_t b, int64_t n, int64_t i) const {
    const double scale = static_cast<float>(o.c.scale);
    const int64_t row = o.FirstRow(b) + i;
    const int64_t kv = o.kv_head(n);
    const double max = t.softmaxMax->Nth(Lane(b, n, i));
    const double sum = t.softmaxSum->Nth(Lane(b, n, i));
    const double delta = Dot(*t.dy, row, n, *t.attentionIn, row, n);
    double p_dp = 0;
    for (int64_t j = 0; j < o.columns(b); ++j) {
      if (!o.Sees(b, n, i, j)) continue;
      const int64_t column = o.FirstColumn(b) + j;
      const double keep = o.Keep(b, n, i, j);
      const double p = std::exp(o.Score(b, n, i, j) - max) / sum;
      const double dp = Dot(*t.dy, row, n, *t.value, column, kv) * keep;
      const double ds = p * (dp - delta);
      p_dp += p * dp;
      Add(g.value, {t.dv, column, kv}, p * keep, {t.dy, row, n});
      Add(g.query, {t.dq, row, n}, scale * ds, {t.keyIn, column, kv});
      Add(g.key, {t.dk, column, kv}, scale * ds, {t.query, row, n});
      if (o.c.rope_dim > 0) {
        Add(g.query_rope, {t.dqRope, row, n}, scale * ds,
            {t.keyInRope, column, kv});
        Add(g.key_rope, {t.dkRope, column, kv}, scale * ds,
            {t.queryRope, row, n});
      }
      if (o.c.pse_gradient) AddPse(g, b, n, i, j, ds);
    }
    if (o.sink == nullptr || o.columns(b) == 0) return;
    g.sink[static_cast<size_t>(n)] -=
        std::exp(o.sink->Get({n}) - max) / sum * p_dp;
  }
};

std::vector<double> Zeros(const DeviceTensor* tensor) {
  return std::vector<double>(
      tensor == nullptr ? 0 : static_cast<size_t>(tensor->elements()), 0);
}

VarLenBackward CallOf(const VarLenCase& c) {
  VarLenBackward call(c.sizes);
  SetCommon(c, call);
  call.pseShift = PseOf(c);
  call.pseType = c.pse_type;
  if (c.q_start) call.qStartIdx = {*c.q_start};
  if (c.kv_start) call.kvStartIdx = {*c.kv_start};
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
    if (*form) **form = MaybeSpread(c, **form, {1, 0, 2});
  }
  for (auto* form : {&call.softmaxMax, &call.softmaxSum}) {
    **form = c.same_as_input ? MaybeSpread(c, **form, {1, 0, 2})
                             : MaybeSpaced(c, **form);
  }
  return call;
}

}  // namespace

void ExpectBackward(const VarLenCase& c, Random& random) {
  const VarLenBackward call = CallOf(c);
  Caller caller(aclnnFlashAttentionUnpaddingScoreGradV5);
  const VarLenBackward::Tensors t = call.Make(caller);
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
  ASSERT_TRUE(caller.Run([&](uint64_t* size, aclOpExecutor** executor) {
    return call.Plan(t, size, executor);
  }));

  Gradients g{Zeros(t.dq), Zeros(t.dqRope), Zeros(t.dk),   Zeros(t.dkRope),
              Zeros(t.dv), Zeros(t.dpse),   Zeros(t.dsink)};
  if (t.dsink == nullptr) g.sink.resize(static_cast<size_t>(c.sizes.heads));
  ForRows(c.sizes,
          [&](size_t b, int64_t n, int64_t i) { run.AddRow(g, b, n, i); });
  const double scale = ScaleOf(c) * 10;
  ExpectNear(*t.dq, g.query, scale);
  ExpectNear(*t.dk, g.key, scale);
  ExpectNear(*t.dv, g.value, scale);
  if (t.dqRope != nullptr) ExpectNear(*t.dqRope, g.query_rope, scale);
  if (t.dkRope != nullptr) ExpectNear(*t.dkRope, g.key_rope, scale);
  if (t.dsink != nullptr) ExpectNear(*t.dsink, g.sink, scale);
  if (t.dpse != nullptr && !Compressed(c)) ExpectNear(*t.dpse, g.pse, scale);
}

std::string ToString(const VarLenCase& c) {
  const VarLenSizes& s = c.sizes;
  std::string text = Str(
      "type {} q {} kv {} tails {}/{} heads {}/{} dims {}+{}/{} mask {} ({}) "
      "mode {} pre {} next {}",
      static_cast<int>(s.type), Join(s.rows, ","), Join(s.columns, ","),
      s.row_tail, s.column_tail, s.heads, s.kv_heads, s.dim, c.rope_dim,
      s.v_dim, static_cast<int>(c.mask), static_cast<int>(c.mask_type), c.mode,
      c.pre, c.next);
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
