// SPDX-License-Identifier: Apache-2.0
// Gradients of sparse attention, and what they are by definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/testing/sparse_call.h"

namespace flashacl::testing {

SparseBackwardCall::SparseBackwardCall(const SparseCase& c, uint64_t seed)
    : SparseFixture("aclnnSparseFlashAttentionGrad", 1, c) {
  Random random(seed);
  MakeInputs(random);
  grad_out = Numbers(QueryDims(c.heads, c.v_dim), random);
  out = Numbers(QueryDims(c.heads, c.v_dim), random);
  const auto result = [&](const DeviceTensor* like) -> DeviceTensor* {
    if (like == nullptr) return nullptr;
    return caller.Output(FormOf(c.type, like->form().dims));
  };
  grad_query = result(query);
  grad_key = result(key);
  grad_value = result(value);
  grad_query_rope = result(query_rope);
  grad_key_rope = result(key_rope);
  MakeForward(random);
  layout = Text(c.packed ? "TND" : "BSND");
}

// Row max, row sum and out as the forward pass leaves them, or any numbers.
void SparseBackwardCall::MakeForward(Random& random) {
  const SparseCase& c = asked;
  row_max = caller.Input(FormOf(ACL_FLOAT, StatisticDims()));
  row_sum = caller.Input(FormOf(ACL_FLOAT, StatisticDims()));
  row_max->Fill(random, -1, 3);
  row_sum->Fill(random, 0.5, 4);
  for (const Row& row : Rows()) {
    const int64_t at = row.row * c.heads + row.head;
    if (!c.consistent) {
      if (random.OneIn(10)) row_sum->SetNth(at, 0);
      continue;
    }
    const Answer answer = Attend(row);
    row_max->SetNth(at, answer.max);
    row_sum->SetNth(at, answer.sum);
    for (int64_t d = 0; d < c.v_dim; ++d) {
      out->SetNth(at * c.v_dim + d, answer.out[static_cast<size_t>(d)]);
    }
  }
}

void SparseBackwardCall::AddGradients(const Row& row,
                                      SparseGradients& sums) const {
  const int64_t at = row.row * asked.heads + row.head;
  const double scale = static_cast<float>(asked.scale);
  const double max = row_max->Nth(at);
  const double sum = row_sum->Nth(at);
  const double delta = Dot(*grad_out, at, *out, at);
  const DeviceTensor& v = ValueRows();
  // Weights err by as much as scores do: of sums of n products, about
  // sqrt(n) / 2 roundings of fp32, and what a scale and a difference add. The
  // 1e-6 that scale is multiplied by is 16 of them.
  int64_t dims = query->form().dims.back();
  if (query_rope != nullptr) dims += query_rope->form().dims.back();
  const double of_score = (std::sqrt(static_cast<double>(dims)) / 2 + 2) / 16;
  double doubt = 1;
  const auto add = [&](std::vector<double>& to, int64_t to_row, double factor,
                       const DeviceTensor& from, int64_t from_row) {
    const int64_t channels = from.form().dims.back();
    for (int64_t d = 0; d < channels; ++d) {
      const double term = factor * from.Nth(from_row * channels + d);
      to[static_cast<size_t>(to_row * channels + d)] += term;
      sums.scale = std::max(sums.scale, doubt * std::fabs(term));
    }
  };
  for (size_t n = 0; n < row.keys.size(); ++n) {
    const int64_t j = row.keys[n];
    const double p = sum == 0 ? 0 : std::exp(row.scores[n] - max) / sum;
    doubt = 1 + of_score * std::fabs(row.scores[n]);
    const double ds = p * (Dot(*grad_out, at, v, j) - delta);
    add(sums.query, at, scale * ds, *key, j);
    add(sums.key, j, scale * ds, *query, at);
    add(asked.merged ? sums.key : sums.value, j, p, *grad_out, at);
    if (query_rope == nullptr || key_rope == nullptr) continue;
    add(sums.query_rope, at, scale * ds, *key_rope, j);
    add(sums.key_rope, j, scale * ds, *query_rope, at);
  }
}

SparseGradients SparseBackwardCall::Expected() const {
  SparseGradients sums;
  const auto size = [](std::vector<double>& to, const DeviceTensor* like) {
    if (like != nullptr) to.assign(static_cast<size_t>(like->elements()), 0.0);
  };
  size(sums.query, query);
  size(sums.key, key);
  size(sums.value, value);
  size(sums.query_rope, query_rope);
  size(sums.key_rope, key_rope);
  for (const Row& row : Rows()) AddGradients(row, sums);
  return sums;
}

Parameters SparseBackwardCall::Pass() {
  Parameters p{.reals = {asked.scale},
               .integers = {asked.block, asked.mode, pre_tokens, next_tokens,
                            deterministic},
               .texts = {layout}};
  Add(p, {query, key, value, indices, grad_out, out, row_max, row_sum,
          query_lengths, key_lengths, query_rope, key_rope, grad_query,
          grad_key, grad_value, grad_query_rope, grad_key_rope});
  return p;
}

void SparseBackwardCall::ExpectAsDocumented() {
  if (!Run()) return;
  const SparseGradients expected = Expected();
  const auto expect = [&](const char* name, const DeviceTensor* tensor,
                          const std::vector<double>& values) {
    if (tensor == nullptr) return;
    SCOPED_TRACE(name);
    ExpectNear(*tensor, values, expected.scale);
  };
  expect("dQuery", grad_query, expected.query);
  expect("dKey", grad_key, expected.key);
  expect("dValue", grad_value, expected.value);
  expect("dQueryRope", grad_query_rope, expected.query_rope);
  expect("dKeyRope", grad_key_rope, expected.key_rope);
}

}  // namespace flashacl::testing
