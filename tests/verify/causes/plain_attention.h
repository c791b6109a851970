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
  // Which of the rows of channels of q, dout, out and dq one is, and of k, v,
  // dk and dv: rows and heads counted together.
  std::function<int64_t(int64_t b, int64_t i, int64_t h)> query_place;
  std::function<int64_t(int64_t b, int64_t j, int64_t g)> key_place;
  double scale;
  // Backward: whether p (dout.out) is subtracted; whether a query head is in dk
  // and dv; whose softmax and output it takes, if not its own.
  bool delta = true;
  std::function<bool(int64_t h)> summed;
  const PlainAttention* forward = nullptr;

  // Computes and rounds to the type of the line. Forward: out; max and sum, of
  // 8 copies, and lse where the line wants them. Backward: dq, dk, dv.
  void Run();

  // The check of what Run left; `layout` as BindInputs has it. With `only` one
  // of the results is checked.
  Result<TensorCheck> Check(std::string_view layout = "",
                            std::string_view only = "");
  std::vector<std::string> ResultNames() const;

 private:
  // A row of scores and what becomes of it.
  struct Softmax {
    std::vector<int64_t> seen;
    std::vector<double> scores, probs;
    std::vector<double> out;
    double max = 0, sum = 0;
  };

  const Numbers& Input(const std::string& name) const;
  Numbers Random(const std::vector<int64_t>& dims, uint64_t seed) const;
  Softmax Attend(int64_t b, int64_t h, int64_t i) const;
  void RunRow(int64_t b, int64_t h, int64_t i);
  void StoreOfSoftmax(int64_t b, int64_t h, int64_t i, const Softmax& softmax);
  void AddGradients(int64_t b, int64_t h, int64_t i, const Softmax& softmax);

  AttentionProblem problem_;
  std::vector<std::pair<std::string, Numbers>> inputs_;
  std::vector<std::pair<std::string, Numbers>> results_;
  std::vector<int64_t> pages_;
  std::vector<int64_t> table_dims_;
};

// A number as a type holds it.
double AsType(DType dtype, double value);

}  // namespace flashacl
