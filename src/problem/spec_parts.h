// SPDX-License-Identifier: Apache-2.0
// Parts from which a spec builds its canonical problem, and what it reads from
// one: shared by the sources of problem_spec.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "problem/attention_problem.h"
#include "problem/problem_spec.h"

namespace flashacl::spec_parts {

inline int64_t Count(const ProblemSpec& problem_spec) {
  return static_cast<int64_t>(problem_spec.rows.size());
}

inline int64_t Most(const std::vector<int64_t>& lengths) {
  return lengths.empty() ? 0
                         : *std::max_element(lengths.begin(), lengths.end());
}

inline int64_t Total(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

// One row axis for all sequences.
inline TensorSpec Packed(DType dtype, std::array<int64_t, 4> dims) {
  TensorSpec spec = DenseSpec(dtype, dims);
  spec.strides[0] = 0;
  return spec;
}

// Scales or offsets: one, or one per head and channel.
inline TensorSpec FactorSpec(ProblemSpec::Scales scales, int64_t heads,
                             int64_t dim) {
  if (scales == ProblemSpec::Scales::kChannel) {
    return DenseSpec(DType::kF32, {heads, dim, 1, 1});
  }
  TensorSpec one = DenseSpec(DType::kF32, {1, 1, 1, 1});
  one.strides = {};
  return one;
}

// None where there is no scale.
inline ProblemSpec::Encoding EncodingOf(const AttentionProblem& problem,
                                        Slot scale, Slot offset) {
  const TensorSpec& spec = problem[scale];
  if (!spec.present()) return {};
  const bool one = spec.strides[0] == 0 && spec.strides[1] == 0;
  return {one ? ProblemSpec::Scales::kTensor : ProblemSpec::Scales::kChannel,
          problem.has(offset)};
}

// Keys and values, their ropes, pages, lists and scales.
void BuildKeys(const ProblemSpec& problem_spec, AttentionProblem& problem);
void SpecKeys(const AttentionProblem& problem, ProblemSpec& problem_spec);

}  // namespace flashacl::spec_parts
