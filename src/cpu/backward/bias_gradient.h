// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias: that of the scores, summed over those that share an
// element. Scalar code: a score costs one addition, against five products of
// as many channels as a head has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu/backward/backward_kernel.h"
#include "plan/backend.h"
#include "plan/bindings.h"
#include "plan/schedule.h"
#include "problem/attention_problem.h"
#include "problem/grid.h"

namespace flashacl::cpu {

class BiasGradient {
 public:
  // The sums a run needs memory for: none where nobody asks, or where every
  // score has an element of its own.
  static int64_t SumsOf(const AttentionProblem& problem);

  // All must outlive it.
  BiasGradient(const AttentionProblem& problem, const Bindings& bindings,
               std::span<const Sequence> sequences, std::span<double> sums);

  bool wanted() const { return grid_.present(); }

  // Several scores add to one element: their order, and so the order of calls
  // of Add, decides on the last bits.
  bool shared() const { return shared_; }

  // Tiles of different classes have no element in common.
  int64_t classes() const;
  int64_t ClassOf(const Tile& tile) const;

  // Before the first call of Add, and after the last.
  void Clear() const;
  void Store(Workers& workers) const;

  // What a block of rows adds: the gradients of its scores are in the tile's
  // scratch memory.
  void Add(int64_t sequence, const BackwardTile& tile, const KeyStep& step,
           Range block) const;

 private:
  struct Row;

  void AddRow(int64_t sequence, const Row& row) const;
  void Write(int64_t offset, float value) const;
  bool SequencesAreApart() const;
  bool HeadsAreApart() const;

  const AttentionProblem& problem_;
  std::byte* base_;
  Grid grid_;
  std::span<double> sums_;
  bool shared_;
};

}  // namespace flashacl::cpu
