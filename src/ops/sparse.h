// SPDX-License-Identifier: Apache-2.0
// Sparse attention, forward and backward: what is known of a call, what both
// refuse, and where both put their tensors. Errors are kInvalidArgument and
// name the argument.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "acl/arguments.h"
#include "acl/executor.h"
#include "base/status.h"
#include "ops/canonical.h"
#include "ops/entry.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// The rows of an operator's table that both have.
struct SparseTable {
  int query, key, value, indices, query_lengths, key_lengths, query_rope,
      key_rope;
};

// What is known of a call while it is being lowered.
struct SparseCall {
  const acl::Arguments& arguments;
  const SparseTable& table;
  int64_t block = 1;          // keys that an index names
  Layout layout = kBsnd;      // of queries
  Layout key_layout = kBsnd;  // of keys; of pages, [page, row, head, channel]
  bool paged = false;
  bool merged = false;  // value is key
  bool rope = false;
  int64_t columns = 0;  // most keys of a sequence; packed, of all
  // Backward plans one even without: keys that nobody sees have gradients.
  int64_t min_sequences = 0;

  const acl::Tensor& operator[](int row) const { return *arguments.given(row); }
  bool has(int row) const { return arguments.has(row); }
  bool given(int row) const { return arguments.given(row) != nullptr; }
  std::string_view name(int row) const { return arguments.name(row); }
  bool packed() const { return layout.rank == 3; }
  bool packed_keys() const { return key_layout.rank == 3; }

  // Extents of [.., row, head, channel].
  const acl::Tensor& query() const { return (*this)[table.query]; }
  const acl::Tensor& key() const { return (*this)[table.key]; }
  int64_t rows() const { return query().dims[query().rank - 3]; }
  int64_t heads() const { return query().dims[query().rank - 2]; }
  int64_t dim() const { return ChannelsOf(table.query); }
  int64_t key_rows() const { return key().dims[key().rank - 3]; }
  int64_t rope_dim() const { return rope ? ChannelsOf(table.query_rope) : 0; }
  int64_t ChannelsOf(int row) const {
    return (*this)[row].dims[(*this)[row].rank - 1];
  }
  int64_t sequences() const;
};

// Whether the rope in `row` is given: absent as shape [0], one of no rows has
// query's rank.
bool HasRope(const SparseCall& call, int row);

// All halves of the table are of query's type.
Status CheckOneType(const SparseCall& call);

// `row` has the shape of `like`, but for its last axis if `channels` is not
// negative.
Status CheckLike(const SparseCall& call, int row, int like,
                 int64_t channels = -1);

// Query and key have the layouts' ranks, one kv head, equal head dims and as
// many sequences.
Status CheckKey(const SparseCall& call);
// The value's channels; it is like the key otherwise.
Result<int64_t> ReadValueDim(const SparseCall& call);
Status CheckRope(const SparseCall& call);

// The lists are [.., row, 1, K] for queries that are [.., row, head, channel].
Status CheckIndices(const SparseCall& call);

// Row max or row sum: [sequence, 1, row, head], or [1, row, head] for packed
// queries.
Status CheckStatistics(const SparseCall& call, int row);

// A layout as the caller passed it.
struct LayoutText {
  std::string_view name;
  const char* text;  // null: BSND
};
// Layouts of queries, and of keys: the same, or PA_BSND.
Status ReadLayouts(const LayoutText& query, const LayoutText& key,
                   SparseCall& call);

// Whether all tokens are in the window, which is one of two numbers.
Status CheckTokens(std::string_view name, int64_t tokens);

// Lengths are there where sequences are packed or keys are in pages.
Status CheckLengthsGiven(const SparseCall& call);

// How many keys a sequence may have, in `block_table` if they are in pages.
Status ReadColumns(int block_table, SparseCall& call);

// Lengths, where needed or given, are one per sequence, of which there are as
// many as a plan has room for.
Status CheckLengths(const SparseCall& call);

// What the NPU refuses although it has a meaning.
struct SparseLimit {
  bool fits;
  std::string_view name;
  int64_t given;
  std::string_view unit, takes;
};
Status CheckLimits(std::span<const SparseLimit> limits);

constexpr bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// States that the tensor of a place is as `spec` says, or like another.
void PlaceAs(const SparseCall& call, const Place& place, const TensorSpec& spec,
             acl::Lowered& lowered);
void PlaceLikeQuery(const SparseCall& call, const Place& place,
                    acl::Lowered& lowered);
void PlaceLikeKey(const SparseCall& call, const Place& place,
                  acl::Lowered& lowered);
void PlaceStatistics(const SparseCall& call, const Place& place,
                     acl::Lowered& lowered);
// That keys are in pages, and which table says in which.
void PlacePages(const SparseCall& call, int block_table, acl::Lowered& lowered);
// Sizes, selection, and lengths as the device has them.
void PlaceProblem(const SparseCall& call, acl::Lowered& lowered);

}  // namespace flashacl::ops
