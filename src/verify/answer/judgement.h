// SPDX-License-Identifier: Apache-2.0
// Whether the error of a result is what its data type explains, head by head.
//
// A plain computation in the type is run beside the fp64 one. With m a row's
// magnitude (answer.h) and r the root of the mean of (plain's error / m)^2 over
// the whole result, an element may err by
//   max(2 * plain's greatest error in its row, 8 r m)
// and by the rounding of the result: twice the error of a plain computation,
// whose greatest among many is about four times its usual one. Of gradients of
// bias and sinks there may be few numbers, which say little of what is usual: r
// is at least 2^-24, and a quarter of a roundoff of the queries' type.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "problem/grid.h"
#include "verify/answer/answer.h"

namespace flashacl {

// One row of one head; of kGradKey and kGradValue a column of one kv head.
struct RowJudgement {
  int64_t row = 0;
  double error = 0;     // the greatest of its channels
  double share = 0;     // of what is allowed; above 1 is wrong
  int64_t channel = 0;  // with that share
  double got = 0;
  double want = 0;

  bool wrong() const { return share > 1; }
};

// One head of one sequence.
struct HeadJudgement {
  Slot slot = Slot::kOut;
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t wrong_rows = 0;
  double error = 0;           // greatest
  double expected_error = 0;  // the same of the plain computation
  double share = 0;           // greatest
  std::vector<RowJudgement> rows;
};

struct Judgement {
  std::vector<HeadJudgement> heads;  // in the order of parts
  int64_t rows = 0;
  int64_t wrong_rows = 0;
  double error = 0;
  double expected_error = 0;
  double share = 0;

  bool right() const { return wrong_rows == 0; }
};

// What may be off, from the exact answer and the plain one of the same parts.
struct Allowance {
  // By part and row.
  std::vector<std::vector<double>> rows;
  std::vector<double> expected_errors;  // by part
  std::map<Slot, double> usual;         // r of above
};

Allowance AllowanceOf(const AttentionProblem& problem,
                      std::span<const Part> exact, std::span<const Part> plain);

// The tensors' results, which are where their bindings say, against the parts.
Judgement Judge(const TensorSet& tensors, std::span<const Part> exact,
                const Allowance& allowance);

// Somebody's results, by the rows of parts.
class Results {
 public:
  explicit Results(const TensorSet& tensors);

  // How many channels a row has: those of the part, or copies of its only one.
  int64_t Channels(const Part& part) const;
  // In elements of its tensor.
  int64_t Offset(const Part& part, size_t row, int64_t channel = 0) const;
  // The number there; of 8 bits the integer.
  double At(const Part& part, size_t row, int64_t channel) const;

 private:
  const TensorSet& tensors_;
  Grid row_max_, row_sum_, lse_, grad_bias_;
};

// Half of the distance of a number near 1 to the next.
double RoundoffOf(DType dtype);

// What rounding `value` to the type may change.
double RoundingOf(DType dtype, double value);

}  // namespace flashacl
