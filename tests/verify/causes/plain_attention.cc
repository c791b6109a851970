// SPDX-License-Identifier: Apache-2.0
#include "tests/verify/causes/plain_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends.h"
#include "base/number.h"
#include "base/random.h"
#include "problem/notation.h"

namespace flashacl {
namespace {

AttentionProblem Parsed(std::string_view line) {
  const Result<AttentionProblem> problem = Parse(line);
  EXPECT_TRUE(problem.ok()) << problem.status().message();
  return problem.ok() ? *problem : AttentionProblem();
}

Numbers* Find(std::vector<std::pair<std::string, Numbers>>& all,
              const std::string& name) {
  for (auto& [known, numbers] : all) {
    if (known == name) return &numbers;
  }
  return nullptr;
}

double Element(const Numbers& numbers, int64_t row, int64_t head, int64_t d) {
  return numbers.values[static_cast<size_t>(
      (row * numbers.dims[1] + head) * numbers.dims[2] + d)];
}

double& Element(Numbers& numbers, int64_t row, int64_t head, int64_t d) {
  return numbers.values[static_cast<size_t>(
      (row * numbers.dims[1] + head) * numbers.dims[2] + d)];
}

UserTensor Tensor(const std::string& name, const Numbers& numbers) {
  return {name, DType::kF64, 8, numbers.dims,
          reinterpret_cast<const std::byte*>(numbers.values.data())};
}

}  // namespace

double AsType(DType dtype, double value) {
  std::byte bytes[8];
  WriteNumber(dtype, bytes, value);
  return ReadNumber(dtype, bytes);
}

PlainAttention::PlainAttention(std::string_view line, uint64_t seed)
    : scale(0), problem_(Parsed(line)) {
  const AttentionProblem& p = problem_;
  scale = p.score.scale;
  const int64_t total_rows = p.lengths.all_rows();
  int64_t total_keys = 0;
  for (const Sequence& one : p.lengths.sequences) total_keys += one.keys.size();
  Add("q", Random({total_rows, p.heads, p.score_dim()}, seed * 10));
  Add("k", Random({total_keys, p.kv_heads, p.score_dim()}, seed * 10 + 1));
  Add("v", Random({total_keys, p.kv_heads, p.v_dim}, seed * 10 + 2));
  if (p.direction == Direction::kBackward) {
    Add("dout", Random({total_rows, p.heads, p.v_dim}, seed * 10 + 3));
  }
  const auto sequence = [this](int64_t b) -> const Sequence& {
    return problem_.lengths.sequences[static_cast<size_t>(b)];
  };
  rows = [=](int64_t b) { return sequence(b).rows(); };
  columns = [=](int64_t b) { return sequence(b).columns(); };
  first_row = [=](int64_t b) { return sequence(b).queries.first; };
  first_key = [=](int64_t b) { return sequence(b).keys.first; };
  query = [this](int64_t b, int64_t i, int64_t h, int64_t d) {
    return Element((*this)["q"], first_row(b) + i, h, d);
  };
  key = [this](int64_t b, int64_t j, int64_t g, int64_t d) {
    return Element((*this)["k"], first_key(b) + j, g, d);
  };
  value = [this](int64_t b, int64_t j, int64_t g, int64_t d) {
    return Element((*this)["v"], first_key(b) + j, g, d);
  };
  sees = [this](int64_t b, int64_t, int64_t i, int64_t j) {
    return problem_.mask.BandOf(b, rows(b), columns(b)).Sees(i, j);
  };
  kept = [](int64_t, int64_t, int64_t, int64_t) { return 1.0; };
  kv_head = [this](int64_t h) { return h / problem_.group(); };
  out_row = [this](int64_t b, int64_t i) { return first_row(b) + i; };
  round_score = round_prob = [](double x) { return x; };
}

Numbers PlainAttention::Random(const std::vector<int64_t>& dims,
                               uint64_t seed) const {
  Numbers numbers{dims, {}};
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  flashacl::Random random(seed);
  for (int64_t n = 0; n < count; ++n) {
    numbers.values.push_back(AsType(problem_[Slot::kQuery].dtype,
                                    static_cast<double>(random.Bell())));
  }
  return numbers;
}

Numbers& PlainAttention::operator[](const std::string& name) {
  if (Numbers* const input = Find(inputs_, name)) return *input;
  Numbers* const result = Find(results_, name);
  EXPECT_NE(result, nullptr) << name;
  return *result;
}

void PlainAttention::Add(const std::string& name, Numbers numbers) {
  inputs_.emplace_back(name, std::move(numbers));
}

void PlainAttention::AddTable(std::vector<int64_t> pages,
                              std::vector<int64_t> dims) {
  pages_ = std::move(pages);
  table_dims_ = std::move(dims);
}

void PlainAttention::Run() {
  const AttentionProblem& p = problem_;
  const auto zeros = [](const Numbers& like, int64_t width) {
    const int64_t heads = like.dims[like.dims.size() - 2];
    int64_t rows_of_all = 1;
    for (size_t n = 0; n + 2 < like.dims.size(); ++n) {
      rows_of_all *= like.dims[n];
    }
    Numbers numbers{{rows_of_all, heads, width}, {}};
    numbers.values.resize(static_cast<size_t>(rows_of_all * heads * width));
    return numbers;
  };
  results_.clear();
  if (p.direction == Direction::kForward) {
    results_.emplace_back("out", zeros((*this)["q"], p.v_dim));
  } else {
    results_.emplace_back("dq", zeros((*this)["q"], p.score_dim()));
    results_.emplace_back("dk", zeros((*this)["k"], p.score_dim()));
    results_.emplace_back("dv", zeros((*this)["v"], p.v_dim));
  }
  for (int64_t b = 0; b < p.lengths.count(); ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < rows(b); ++i) RunRow(b, h, i);
    }
  }
  for (auto& [name, numbers] : results_) {
    for (double& x : numbers.values) x = AsType(p[Slot::kOut].dtype, x);
  }
}

void PlainAttention::RunRow(int64_t b, int64_t h, int64_t i) {
  const AttentionProblem& p = problem_;
  const int64_t g = kv_head(h);
  std::vector<int64_t> seen;
  std::vector<double> probs;
  double max = -INFINITY;
  for (int64_t j = 0; j < columns(b); ++j) {
    if (!sees(b, h, i, j)) continue;
    double dot = 0;
    for (int64_t d = 0; d < p.score_dim(); ++d) {
      dot += query(b, i, h, d) * key(b, j, g, d);
    }
    seen.push_back(j);
    probs.push_back(round_score(scale * dot));
    max = std::max(max, probs.back());
  }
  double sum = 0;
  for (double& prob : probs) {
    prob = round_prob(std::exp(prob - max));
    sum = round_prob(sum + prob);
  }
  std::vector<double> out(static_cast<size_t>(p.v_dim));
  for (size_t n = 0; n < seen.size(); ++n) {
    probs[n] = round_prob(probs[n] / sum);
    const double weight = probs[n] * kept(b, h, i, seen[n]);
    for (int64_t d = 0; d < p.v_dim; ++d) {
      out[static_cast<size_t>(d)] += weight * value(b, seen[n], g, d);
    }
  }
  const int64_t row = out_row(b, i);
  if (p.direction == Direction::kForward) {
    for (int64_t d = 0; d < p.v_dim; ++d) {
      Element((*this)["out"], row, h, d) = out[static_cast<size_t>(d)];
    }
    return;
  }
  const Numbers& grad_out = (*this)["dout"];
  double outs = 0;
  for (int64_t d = 0; d < p.v_dim; ++d) {
    outs += Element(grad_out, row, h, d) * out[static_cast<size_t>(d)];
  }
  for (size_t n = 0; n < seen.size(); ++n) {
    const int64_t j = seen[n];
    double dp = 0;
    for (int64_t d = 0; d < p.v_dim; ++d) {
      dp += Element(grad_out, row, h, d) * value(b, j, g, d);
    }
    const double drop = kept(b, h, i, j);
    const double ds = probs[n] * (dp * drop - (delta ? outs : 0)) * scale;
    const int64_t at = first_key(b) + j;
    for (int64_t d = 0; d < p.score_dim(); ++d) {
      Element((*this)["dq"], row, h, d) += ds * key(b, j, g, d);
      Element((*this)["dk"], at, g, d) += ds * query(b, i, h, d);
    }
    for (int64_t d = 0; d < p.v_dim; ++d) {
      Element((*this)["dv"], at, g, d) +=
          probs[n] * drop * Element(grad_out, row, h, d);
    }
  }
}

Result<TensorCheck> PlainAttention::Check(std::string_view layout) {
  std::vector<UserTensor> inputs;
  std::vector<UserTensor> results;
  for (const auto& [name, numbers] : inputs_) {
    inputs.push_back(Tensor(name, numbers));
  }
  if (!pages_.empty()) {
    inputs.push_back({"table", DType::kI64, 8, table_dims_,
                      reinterpret_cast<const std::byte*>(pages_.data())});
  }
  for (const auto& [name, numbers] : results_) {
    results.push_back(Tensor(name, numbers));
  }
  const Result<BoundInputs> bound = BindInputs(problem_, inputs, layout);
  if (!bound.ok()) return bound.status();
  const Result<TensorSet> set = BindResults(*bound, results, "");
  if (!set.ok()) return set.status();
  Result<TensorCheck> check = TensorCheck{};
  (void)CpuBackend().queue->OnHost([&](Workers& workers) -> Status {
    check = CheckTensors(*bound, {{"npu", *set}}, {}, workers);
    return {};
  });
  return check;
}

}  // namespace flashacl
