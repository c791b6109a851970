// SPDX-License-Identifier: Apache-2.0
// Sparse attention, and what it is by definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/testing/sparse_call.h"

namespace flashacl::testing {

SparseForwardCall::SparseForwardCall(const SparseCase& c, uint64_t seed)
    : SparseFixture("aclnnSparseFlashAttention", c.version, c) {
  Random random(seed);
  MakeInputs(random);
  if (c.sinks) {
    sinks = caller.Input(FormOf(ACL_FLOAT, {c.heads}));
    sinks->Fill(random, -2, 2);
  }
  out = caller.Output(FormOf(c.type, QueryDims(c.heads, c.v_dim)));
  for (DeviceTensor** tensor : {&row_max, &row_sum}) {
    const Form form = FormOf(ACL_FLOAT, StatisticDims());
    // Inputs, which are never written, if they are not wanted.
    *tensor = c.statistics ? caller.Output(form) : caller.Input(form);
    if (!c.statistics) (*tensor)->Fill(random, -1, 1);
  }
  query_layout = Text(c.packed ? "TND" : "BSND");
  key_layout = c.paged() ? Text("PA_BSND") : query_layout;
}

Parameters SparseForwardCall::Pass() {
  Parameters p{.reals = {asked.scale},
               .integers = {asked.block, asked.mode, pre_tokens, next_tokens,
                            attention_mode, asked.statistics},
               .texts = {query_layout, key_layout}};
  Add(p, {query, key, value, indices, block_table, query_lengths, key_lengths,
          query_rope, key_rope});
  if (asked.version > 1) Add(p, {sinks});
  Add(p, {out, row_max, row_sum});
  return p;
}

void SparseForwardCall::ExpectAsDocumented() {
  if (!Run()) return;
  std::vector<double> outs(static_cast<size_t>(out->elements()), 0.0);
  const int64_t planes = asked.packed ? 1 : asked.sequences;
  const auto rows = static_cast<size_t>(planes * asked.rows * asked.heads);
  std::vector<double> maxima(rows, 0.0), sums(rows, 0.0);
  for (const Row& row : Rows()) {
    const bool sink = sinks != nullptr && row.sequence_keys > 0;
    const Answer answer =
        sink ? Attend(row, sinks->Nth(row.head)) : Attend(row);
    const auto at = static_cast<size_t>(row.row * asked.heads + row.head);
    maxima[at] = answer.max;
    sums[at] = answer.sum;
    std::ranges::copy(answer.out,
                      outs.begin() + static_cast<ptrdiff_t>(at) * asked.v_dim);
  }
  // Weights err by as much as scores do, which is some units of fp32: 2^-22 is
  // a quarter of the 1e-6 that this is multiplied by. Sums err by as much.
  double scale = 4.0, most = 1.0;
  for (const double max : maxima) {
    scale = std::max(scale, 4.0 + std::fabs(max));
  }
  ExpectNear(*out, outs, scale);
  if (!asked.statistics) return;
  SCOPED_TRACE("statistics");
  for (const double sum : sums) most = std::max(most, sum);
  ExpectNear(*row_max, maxima, scale);
  ExpectNear(*row_sum, sums, scale * most);
}

}  // namespace flashacl::testing
