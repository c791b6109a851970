// SPDX-License-Identifier: Apache-2.0
// Attention by its formulas, in any type of number: one product, one exp and
// one sum after the other, in order. In double it is the truth for kernels; in
// float it says how far fp32 may be from it.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "problem/grid.h"
#include "tests/testing/small_case.h"
#include "tests/testing/softmax.h"

namespace flashacl::testing {

// Either direction of a case of one sequence, whose rows see what a band or
// their list says.
template <typename T>
class PlainAttention {
 public:
  explicit PlainAttention(const SmallCase& small)
      : small_(small),
        problem_(small.problem()),
        sequence_(problem_.lengths.sequences[0]),
        band_(problem_.mask.BandOf(0, sequence_.rows(), sequence_.columns())) {
    for (size_t n = 0; n < kSlots; ++n) {
      const auto slot = static_cast<Slot>(n);
      numbers_[n].resize(static_cast<size_t>(small.count(slot)));
      if (IsResult(slot)) continue;
      for (size_t at = 0; at < numbers_[n].size(); ++at) {
        numbers_[n][at] =
            static_cast<T>(small.Get(slot, static_cast<int64_t>(at)));
      }
    }
    for (int64_t head = 0; head < problem_.heads; ++head) {
      for (int64_t i = 0; i < sequence_.rows(); ++i) {
        problem_.direction == Direction::kForward ? Forward(i, head)
                                                  : Backward(i, head);
      }
    }
    for (const Slot slot : {Slot::kGradQuery, Slot::kGradKey}) {
      for (T& x : At(slot)) x *= static_cast<T>(problem_.score.scale);
    }
  }

  // A result, in the order of the case's memory.
  const std::vector<T>& operator[](Slot slot) const {
    return numbers_[static_cast<size_t>(slot)];
  }

 private:
  bool IsResult(Slot slot) const {
    return problem_.direction == Direction::kForward ? slot >= Slot::kOut
                                                     : slot >= Slot::kGradQuery;
  }

  std::vector<T>& At(Slot slot) { return numbers_[static_cast<size_t>(slot)]; }
  T* At(Slot slot, int64_t row, int64_t head) {
    return At(slot).data() + problem_[slot].At(0, row, head);
  }
  T* At(Slot slot, const SmallCase::Cell& row) {
    const Grid grid(problem_[slot], problem_.lengths.sequences);
    return At(slot).data() + grid.Plane(0, row.head).At(row.i, 0);
  }

  static T Dot(const T* a, const T* b, int64_t count) {
    T sum = 0;
    for (int64_t d = 0; d < count; ++d) sum += a[d] * b[d];
    return sum;
  }
  static void Add(T factor, const T* from, int64_t count, T* to) {
    for (int64_t d = 0; d < count; ++d) to[d] += factor * from[d];
  }

  T Score(int64_t i, int64_t head, int64_t j) {
    return Dot(At(Slot::kQuery, i, head),
               At(Slot::kKey, j, head / problem_.group()), problem_.qk_dim) *
           static_cast<T>(problem_.score.scale);
  }

  std::vector<int64_t> KeysSeen(int64_t i, int64_t head) const {
    std::vector<int64_t> keys;
    const auto see = [&](int64_t j) {
      if (j < sequence_.columns() && band_.Sees(i, j)) keys.push_back(j);
    };
    if (!problem_.kv.gathers()) {
      for (int64_t j = 0; j < sequence_.columns(); ++j) see(j);
      return keys;
    }
    const TensorSpec& list = problem_[Slot::kTopK];
    for (int64_t n = 0; n < list.dims[3]; ++n) {
      const auto j = static_cast<int64_t>(
          small_.Get(Slot::kTopK, list.At(0, i, head / problem_.group(), n)));
      if (j < 0) break;
      see(j);
    }
    return keys;
  }

  void Forward(int64_t i, int64_t head) {
    const std::vector<int64_t> keys = KeysSeen(i, head);
    std::vector<T> scores;
    for (const int64_t j : keys) scores.push_back(Score(i, head, j));
    const SoftmaxOf<T> softmax(scores);
    T* const out = At(Slot::kOut, i, head);
    for (size_t n = 0; n < keys.size(); ++n) {
      Add(softmax.weights[n],
          At(Slot::kValue, keys[n], head / problem_.group()), problem_.v_dim,
          out);
    }
    for (int64_t d = 0; d < problem_.v_dim && !keys.empty(); ++d) {
      out[d] /= softmax.sum;
    }
    if (!problem_.has(Slot::kRowSum)) return;
    *At(Slot::kRowMax, {0, head, i, 0}) = softmax.max;
    *At(Slot::kRowSum, {0, head, i, 0}) = softmax.sum;
  }

  void Backward(int64_t i, int64_t head) {
    const int64_t kv_head = head / problem_.group();
    const T max = *At(Slot::kRowMax, {0, head, i, 0});
    const T sum = *At(Slot::kRowSum, {0, head, i, 0});
    const T* const grad_out = At(Slot::kGradOut, i, head);
    const T delta = Dot(grad_out, At(Slot::kOut, i, head), problem_.v_dim);
    for (const int64_t j : KeysSeen(i, head)) {
      const T p = std::exp(Score(i, head, j) - max) / sum;
      const T dp = Dot(grad_out, At(Slot::kValue, j, kv_head), problem_.v_dim);
      const T ds = p * (dp - delta);
      Add(p, grad_out, problem_.v_dim, At(Slot::kGradValue, j, kv_head));
      Add(ds, At(Slot::kKey, j, kv_head), problem_.qk_dim,
          At(Slot::kGradQuery, i, head));
      Add(ds, At(Slot::kQuery, i, head), problem_.qk_dim,
          At(Slot::kGradKey, j, kv_head));
    }
  }

  const SmallCase& small_;
  const AttentionProblem& problem_;
  const Sequence& sequence_;
  Band band_;
  std::array<std::vector<T>, kSlots> numbers_;
};

}  // namespace flashacl::testing
