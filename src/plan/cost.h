// SPDX-License-Identifier: Apache-2.0
// What a problem costs whoever computes it: how many scores, how much
// arithmetic, how many bytes.
#pragma once

#include "problem/attention_problem.h"

namespace flashacl {

// How many (row, column) of `rows` x `cols` the band lets see each other. Exact
// up to 2^53.
double VisiblePairs(const Band& band, Range rows, Range cols);

// Counts are exact up to 2^53.
struct Cost {
  double pairs = 0;       // (row, column) that see each other, for all heads
  double all_pairs = 0;   // rows * columns, for all heads
  double flops = 0;       // of the matrix products alone, a multiply-add is two
  double bytes_read = 0;  // every input element needed, once
  double bytes_written = 0;  // every output element, once

  // Only the stream knows lengths, lists or a mask: nothing here is exceeded.
  bool upper_bound = false;

  // The part of the score matrix nobody needs to look at.
  double skipped() const { return all_pairs > 0 ? 1 - pairs / all_pairs : 0.0; }
};

Cost CountCost(const AttentionProblem& problem);

// How many bytes all results have, every element once: bytes_written, without
// counting anything else.
double ResultBytes(const AttentionProblem& problem);

// About how long one thread takes, in microseconds, that does `gflops` of the
// matrix products and moves 10 GB/s. In constant time: of many sequences it is
// infinity, as it is where gflops is 0.
double MicrosecondsOf(const AttentionProblem& problem, double gflops);

}  // namespace flashacl
