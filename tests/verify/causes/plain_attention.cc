// SPDX-License-Identifier: Apache-2.0
#include "tests/verify/causes/plain_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "base/function_ref.h"
#include "base/number.h"
#include "base/random.h"
#include "plan/backend.h"
#include "problem/notation.h"
#include "verify/check/user_results.h"

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

double Element(const Numbers& numbers, int64_t place, int64_t d) {
  return numbers.values[static_cast<size_t>(place * numbers.dims.back() + d)];
}

double& Element(Numbers& numbers, int64_t place, int64_t d) {
  return numbers.values[static_cast<size_t>(place * numbers.dims.back() + d)];
}

// These problems are too small to wait for other threads.
class Alone final : public Workers {
 public:
  void ForEach(int64_t count, FunctionRef<void(int64_t)> body) override {
    for (int64_t n = 0; n < count; ++n) body(n);
  }
  int count() const override { return 1; }
};

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
    return Element(Input("q"), query_place(b, i, h), d);
  };
  key = [this](int64_t b, int64_t j, int64_t g, int64_t d) {
    return Element(Input("k"), key_place(b, j, g), d);
  };
  value = [this](int64_t b, int64_t j, int64_t g, int64_t d) {
    return Element(Input("v"), key_place(b, j, g), d);
  };
  sees = [this](int64_t b, int64_t, int64_t i, int64_t j) {
    return problem_.mask.BandOf(b, rows(b), columns(b)).Sees(i, j);
  };
  kept = [](int64_t, int64_t, int64_t, int64_t) { return 1.0; };
  kv_head = [this](int64_t h) { return h / problem_.group(); };
  query_place = [this](int64_t b, int64_t i, int64_t h) {
    return (first_row(b) + i) * problem_.heads + h;
  };
  key_place = [this](int64_t b, int64_t j, int64_t g) {
    return (first_key(b) + j) * problem_.kv_heads + g;
  };
  summed = [](int64_t) { return true; };
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

const Numbers& PlainAttention::Input(const std::string& name) const {
  const auto at =
      std::ranges::find(inputs_, name, &std::pair<std::string, Numbers>::first);
  EXPECT_NE(at, inputs_.end()) << name;
  return at->second;
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
    if (p.has(Slot::kRowMax)) {
      constexpr int64_t kCopies = 8;
      results_.emplace_back("max", zeros((*this)["q"], kCopies));
      results_.emplace_back("sum", zeros((*this)["q"], kCopies));
    }
    if (p.has(Slot::kLse)) results_.emplace_back("lse", zeros((*this)["q"], 1));
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
    const bool of_softmax = name == "max" || name == "sum" || name == "lse";
    const DType dtype = of_softmax ? DType::kF32 : p[Slot::kOut].dtype;
    for (double& x : numbers.values) x = AsType(dtype, x);
  }
}

PlainAttention::Softmax PlainAttention::Attend(int64_t b, int64_t h,
                                               int64_t i) const {
  const int64_t g = kv_head(h);
  Softmax softmax;
  softmax.max = -INFINITY;
  for (int64_t j = 0; j < columns(b); ++j) {
    if (!sees(b, h, i, j)) continue;
    double dot = 0;
    for (int64_t d = 0; d < problem_.score_dim(); ++d) {
      dot += query(b, i, h, d) * key(b, j, g, d);
    }
    softmax.seen.push_back(j);
    softmax.scores.push_back(round_score(scale * dot));
    softmax.max = std::max(softmax.max, softmax.scores.back());
  }
  for (const double score : softmax.scores) {
    softmax.probs.push_back(round_prob(std::exp(score - softmax.max)));
    softmax.sum = round_prob(softmax.sum + softmax.probs.back());
  }
  softmax.out.resize(static_cast<size_t>(problem_.v_dim));
  for (size_t n = 0; n < softmax.seen.size(); ++n) {
    softmax.probs[n] = round_prob(softmax.probs[n] / softmax.sum);
    const int64_t j = softmax.seen[n];
    const double weight = softmax.probs[n] * kept(b, h, i, j);
    for (size_t d = 0; d < softmax.out.size(); ++d) {
      softmax.out[d] += weight * value(b, j, g, static_cast<int64_t>(d));
    }
  }
  return softmax;
}

void PlainAttention::RunRow(int64_t b, int64_t h, int64_t i) {
  Softmax softmax = Attend(b, h, i);
  if (problem_.direction == Direction::kForward) {
    for (int64_t d = 0; d < problem_.v_dim; ++d) {
      Element((*this)["out"], query_place(b, i, h), d) =
          softmax.out[static_cast<size_t>(d)];
    }
    StoreOfSoftmax(b, h, i, softmax);
    return;
  }
  if (forward != nullptr) {
    const Softmax right = forward->Attend(b, h, i);
    for (size_t n = 0; n < softmax.probs.size(); ++n) {
      softmax.probs[n] = std::exp(softmax.scores[n] - right.max) / right.sum;
    }
    softmax.out = right.out;
  }
  AddGradients(b, h, i, softmax);
}

// As operators store it of a row; see AttentionProblem for those without keys.
void PlainAttention::StoreOfSoftmax(int64_t b, int64_t h, int64_t i,
                                    const Softmax& softmax) {
  const bool sees_some = !softmax.seen.empty();
  const double none = columns(b) == 0 ? 0 : FLT_MAX;
  const double max = sees_some ? softmax.max : -none;
  const double sum = sees_some ? softmax.sum : none;
  const double lse = sees_some ? max + std::log(sum) : INFINITY;
  for (const auto& [name, value] :
       {std::pair{"max", max}, {"sum", sum}, {"lse", lse}}) {
    Numbers* const numbers = Find(results_, name);
    for (int64_t d = 0; numbers != nullptr && d < numbers->dims.back(); ++d) {
      Element(*numbers, query_place(b, i, h), d) = value;
    }
  }
}

void PlainAttention::AddGradients(int64_t b, int64_t h, int64_t i,
                                  const Softmax& softmax) {
  const AttentionProblem& p = problem_;
  const int64_t g = kv_head(h);
  const int64_t row = query_place(b, i, h);
  const Numbers& grad_out = Input("dout");
  Numbers& grad_query = (*this)["dq"];
  Numbers& grad_key = (*this)["dk"];
  Numbers& grad_value = (*this)["dv"];
  double outs = 0;
  for (int64_t d = 0; d < p.v_dim; ++d) {
    outs += Element(grad_out, row, d) * softmax.out[static_cast<size_t>(d)];
  }
  for (size_t n = 0; n < softmax.seen.size(); ++n) {
    const int64_t j = softmax.seen[n];
    double dp = 0;
    for (int64_t d = 0; d < p.v_dim; ++d) {
      dp += Element(grad_out, row, d) * value(b, j, g, d);
    }
    const double drop = kept(b, h, i, j);
    const double prob = softmax.probs[n];
    const double ds = prob * (dp * drop - (delta ? outs : 0)) * scale;
    const int64_t at = key_place(b, j, g);
    for (int64_t d = 0; d < p.score_dim(); ++d) {
      Element(grad_query, row, d) += ds * key(b, j, g, d);
      if (summed(h)) Element(grad_key, at, d) += ds * query(b, i, h, d);
    }
    for (int64_t d = 0; d < p.v_dim && summed(h); ++d) {
      Element(grad_value, at, d) += prob * drop * Element(grad_out, row, d);
    }
  }
}

std::vector<std::string> PlainAttention::ResultNames() const {
  std::vector<std::string> names;
  for (const auto& [name, numbers] : results_) names.push_back(name);
  return names;
}

Result<TensorCheck> PlainAttention::Check(std::string_view layout,
                                          std::string_view only) {
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
    if (only.empty() || name == only) {
      results.push_back(Tensor(name, numbers));
    }
  }
  const Result<BoundInputs> bound = BindInputs(problem_, inputs, layout);
  if (!bound.ok()) return bound.status();
  const Result<TensorSet> set = BindResults(*bound, results, "");
  if (!set.ok()) return set.status();
  Alone workers;
  return CheckTensors(*bound, {{"npu", *set}}, {}, workers);
}

}  // namespace flashacl
