// SPDX-License-Identifier: Apache-2.0
// Which rows of a problem are computed: all, or as many as there is time for.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/attention_problem.h"

namespace flashacl {

// Rows of one sequence, in all heads that share a kv head. Gradients of keys
// and values are sums over rows, so backward they must be all of them.
struct Unit {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  std::vector<int64_t> rows;
};

// FLOP of a unit.
double FlopsOf(const AttentionProblem& problem, const Unit& unit);

// All rows where they cost no more than `flops`, else some of every sequence
// and head as far as that goes, the first and the last among them.
std::vector<Unit> ChooseUnits(const AttentionProblem& problem, double flops);

}  // namespace flashacl
