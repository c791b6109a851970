// SPDX-License-Identifier: Apache-2.0
// The operands of one run as numbers: elements of any type as doubles, rows by
// strides, and the keys and values of one sequence wherever they live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/range.h"
#include "plan/backend.h"
#include "plan/bindings.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"
#include "problem/grid.h"

namespace flashacl::reference {

// A tensor with its address; absent when its spec is.
struct Tensor {
  TensorSpec spec;
  std::byte* base = nullptr;

  bool present() const { return spec.present(); }

  // The element `offset` elements after the base; of several numbers, the
  // first. Store rounds once, to nearest even.
  double Load(int64_t offset) const;
  int64_t LoadInteger(int64_t offset) const;
  void Store(int64_t offset, double value) const;

  // The last axis from its first element, at `offset`, dense on our side.
  void LoadRow(int64_t offset, std::span<double> row) const;
  void StoreRow(int64_t offset, std::span<const double> row) const;

  // Every element that dims and strides name; of kBlocks, those below `end`.
  void Fill(double value, int64_t end = 0) const;
};

// One row of the score matrix of one head.
struct Row {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  int64_t head = 0;
  int64_t i = 0;
};

// A problem with its addresses and the lengths of this run.
struct Operands {
  Operands(const AttentionProblem& problem, const Bindings& bindings);

  Tensor tensor(Slot slot) const { return {problem[slot], bindings[slot]}; }
  const Sequence& sequence(int64_t number) const {
    return sequences[static_cast<size_t>(number)];
  }

  // A query row of a tensor; nothing happens where there is no tensor.
  void LoadRow(Slot slot, const Row& row, std::span<double> channels) const;
  void StoreRow(Slot slot, const Row& row,
                std::span<const double> channels) const;

  const AttentionProblem& problem;
  const Bindings& bindings;
  std::vector<Sequence> sequences;
  Grid mask, bias, keep, row_max, row_sum, lse;

 private:
  int64_t OffsetOf(const Tensor& tensor, const Row& row) const;
};

// Where the elements of the row's head are; of an absent grid, nowhere.
GridPlane PlaneOf(const Grid& grid, const Row& row);

// Row `number` of rows of `width` elements.
template <typename T>
std::span<T> RowOf(std::span<T> rows, int64_t number, int64_t width) {
  return rows.subspan(static_cast<size_t>(number * width),
                      static_cast<size_t>(width));
}

// Prepared::Describe of both directions.
inline constexpr char kRowByRow[] = "none: it goes row by row";

// The rows of `sequence` that share a kv head, numbered from 0.
Row RowOfGroup(const AttentionProblem& problem, int64_t sequence,
               int64_t kv_head, int64_t number);

// Calls body(piece) for disjoint pieces that make up [0, count).
void ForPieces(Workers& workers, int64_t count, FunctionRef<void(Range)> body);

// The query row, its rope after the rest.
void LoadQuery(const Operands& operands, const Row& row,
               std::span<double> query);

// Keys and values of one sequence and kv head as doubles, the rope after the
// rest of the key. A row that no page holds does not exist and is never read.
class KeyValues {
 public:
  // Reserves memory for the widest sequence.
  KeyValues(const AttentionProblem& problem, WorkspaceLayout& layout);

  void Attach(std::byte* workspace);
  void Load(const Operands& operands, int64_t sequence, int64_t kv_head,
            Workers& workers);

  bool exists(int64_t j) const { return exists_[static_cast<size_t>(j)] != 0; }
  std::span<const double> key(int64_t j) const;
  std::span<const double> value(int64_t j) const;

 private:
  int64_t key_dim_;
  int64_t value_dim_;
  int64_t value_stride_;
  Region<double> key_region_;
  Region<double> value_region_;
  Region<uint8_t> exists_region_;
  std::span<double> keys_;    // [column, key_dim]
  std::span<double> values_;  // [column, v_dim]; or the keys
  std::span<uint8_t> exists_;
};

}  // namespace flashacl::reference
