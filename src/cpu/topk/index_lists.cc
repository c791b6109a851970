// SPDX-License-Identifier: Apache-2.0
// Scalar code: a listed key costs some instructions, against at least 64
// multiply-adds per query row.
#include "cpu/topk/index_lists.h"

#include <algorithm>

#include "base/number.h"

namespace flashacl::cpu {
namespace {

// An index of more columns than any sequence has names no more than those.
int64_t KeysPerIndex(const AttentionProblem& problem) {
  return std::min(problem.kv.gather_rows,
                  std::max<int64_t>(problem.lengths.max_columns(), 1));
}

}  // namespace

int64_t MaxListedKeys(const AttentionProblem& problem) {
  return problem[Slot::kTopK].dims[3] * KeysPerIndex(problem);
}

int64_t SeenKeys(const AttentionProblem& problem, const ListOwner& owner) {
  const Sequence& sequence =
      problem.lengths.sequences[static_cast<size_t>(owner.sequence)];
  const Band band =
      problem.mask.BandOf(owner.sequence, sequence.rows(), sequence.columns());
  int64_t seen = 0;
  for (const Range& range : band.Row(owner.position, sequence.columns())) {
    seen += range.size();
  }
  return seen;
}

IndexLists::IndexLists(const AttentionProblem& problem,
                       const Bindings& bindings)
    : spec_(problem[Slot::kTopK]),
      base_(bindings[Slot::kTopK]),
      gather_rows_(problem.kv.gather_rows),
      keys_per_index_(KeysPerIndex(problem)) {}

int64_t IndexLists::Fill(const ListOwner& owner, const Sequence& extent,
                         const Band& band, const KvRows& keys,
                         Range listed_keys, int64_t* columns) const {
  const int64_t row = extent.queries.first + owner.position;
  const int64_t width = extent.columns();
  const int64_t indices = CeilDiv(width, gather_rows_);
  const auto seen = band.Row(owner.position, width);
  const int64_t places =
      std::min(spec_.dims[3], CeilDiv(listed_keys.last, keys_per_index_));
  if (places <= 0) return 0;
  const int64_t before = listed_keys.first / keys_per_index_;
  const int64_t bytes = SizeOf(spec_.dtype);
  const std::byte* next =
      base_ + spec_.At(owner.sequence, row, owner.kv_head) * bytes;
  int64_t count = 0;
  for (int64_t place = 0; place < places; ++place) {
    const int64_t index = ReadIndex(spec_.dtype, next);
    next += spec_.strides[3] * bytes;
    if (index < 0) break;
    if (index >= indices || place < before) continue;
    // The columns of the index that the listed keys cover.
    const int64_t column = index * gather_rows_;
    const int64_t offset = column - place * keys_per_index_;
    const Range named{
        std::max(column, offset + listed_keys.first),
        std::min(column + gather_rows_, offset + listed_keys.last)};
    for (const Range& range : seen) {
      const int64_t last = std::min(named.last, range.last);
      for (int64_t j = std::max(named.first, range.first); j < last; ++j) {
        if (keys.Exists(j)) columns[count++] = j;
      }
    }
  }
  return count;
}

}  // namespace flashacl::cpu
