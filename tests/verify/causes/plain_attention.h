// SPDX-License-Identifier: Apache-2.0
// Attention by its definition in a few loops, with a hook wherever people are
// mistaken: what a wrong program would have computed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "problem/attention_problem.h"
#include "verify/check/tensor_check.h"

namespace flashacl {

// A tensor of somebody's, in fp64: [row, head, channel] unless a test has it
// otherwise.
struct Numbers {
  std::vector<int64_t> dims;
  std::vector<double> values;
};

class PlainAttention {
 public:
  // Random tensors for a line, packed sequences, numbers as its type holds.
  explicit PlainAttention(std::string_view line, uint64_t seed = 1);

  // The operands, by their names in a check; q, k, v, dout, ...
  Numbers& operator[](const std::string& name);
  void Add(const std::string& name, Numbers numbers);
  // The block table.
  void AddTable(std::vector<int64_t> pages, std::vector<int64_t> dims);

  const AttentionProblem& problem() const { return problem_; }

  // One element of a row of keys or values, and whether it exists; what a row
  // sees; its score; what dropout makes of a weight of 1. By default as the
  // line says. b: sequence, h: query head, g: kv head, i, j: row and column of
  // the sequence.
  std::function<double(int64_t b, int64_t j, int64_t g, int64_t d)> key, value;
  std::function<double(int64_t b, int64_t i, int64_t h, int64_t d)> query;
  std::function<bool(int64_t b, int64_t h, int64_t i, int64_t j)> sees;
  std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)> kept;
  std::function<int64_t(int64_t h)> kv_head;
  std::function<double(double)> round_score, round_prob;
  std::function<int64_t(int64_t b)> columns, rows, first_row, first_key;
  // Where the row of a result is; by default as queries are.
  std::function<int64_t(int64_t b, int64_t i)> out_row;
  double scale;
  bool delta = true;  // backward subtracts p (dout.out)

  // Computes and rounds to the type of the line. Backward: dq, dk, dv.
  void Run();

  // The check of what Run left; `layout` as BindInputs has it.
  Result<TensorCheck> Check(std::string_view layout = "");

 private:
  Numbers Random(const std::vector<int64_t>& dims, uint64_t seed) const;
  void RunRow(int64_t b, int64_t h, int64_t i);

  AttentionProblem problem_;
  std::vector<std::pair<std::string, Numbers>> inputs_;
  std::vector<std::pair<std::string, Numbers>> results_;
  std::vector<int64_t> pages_;
  std::vector<int64_t> table_dims_;
};

// A number as a type holds it.
double AsType(DType dtype, double value);

}  // namespace flashacl
