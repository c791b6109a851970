// SPDX-License-Identifier: Apache-2.0
// The sequences of one run, and where their rows are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/run_memory.h"
#include "cpu/element_format.h"
#include "cpu/kv_rows.h"
#include "cpu/pair_dots.h"
#include "indexer/indexer.h"

namespace flashacl::indexer {

// Rows of a query's tensor.
struct RowRange {
  int64_t sequence = 0;
  Range rows;
};

// How products of queries and keys are summed, by vector code that has the
// instruction and matrix registers or has not.
cpu::PairDots PairDotsOf(const AttentionProblem& problem, bool has_instruction,
                         cpu::MatrixCode matrices);

class Sequences {
 public:
  Sequences(const Rows& rows, At at);

  int64_t count() const { return static_cast<int64_t>(sequences_.size()); }
  const Sequence& operator[](int64_t n) const {
    return sequences_[static_cast<size_t>(n)];
  }

  // How many keys a row of the query's tensor sees: the first ones.
  int64_t Seen(int64_t sequence, int64_t row) const {
    const Sequence& one = (*this)[sequence];
    if (!rows_.causal) return one.columns();
    const int64_t from_last = one.queries.last - 1 - row;
    return std::clamp<int64_t>(one.columns() - from_last, 0, one.columns());
  }

  cpu::KvRows Keys(int64_t sequence) const {
    return {rows_.problem, bindings_, (*this)[sequence], sequence, 0};
  }

  cpu::TensorRows Queries(int64_t sequence) const {
    const Slot slot = Slot::kQuery;
    return RowsOf(rows_.problem[slot], bindings_[slot], sequence);
  }

  // The rows that a sequence has in a tensor; row 0 is the tensor's.
  static cpu::TensorRows RowsOf(const TensorSpec& spec, std::byte* base,
                                int64_t sequence);

  // All rows, in pieces of at most `most`; of sequences, or of nobody.
  RunVector<RowRange> Cut(int64_t most) const;
  RunVector<RowRange> CutUnowned(int64_t most) const;

 private:
  const Rows& rows_;
  Bindings bindings_;
  RunVector<Sequence> sequences_;
};

}  // namespace flashacl::indexer
