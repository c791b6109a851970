// SPDX-License-Identifier: Apache-2.0
// Rows of keys and values, into the pages of a cache and out of them. A cache
// is blocks of `block_rows` rows; the row of number n is row n % block_rows of
// block n / block_rows. Rows are bytes: no bit changes, and what no row goes to
// keeps its own. Where rows go and come from is device data, which a run reads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "plan/computation.h"

namespace flashacl::pages {

// The elements of one row as three axes, the first outermost.
using RowAxes = std::array<int64_t, 3>;

// One row after the other. Strides and offsets are bytes.
struct TokenRows {
  size_t argument = 0;  // whose data it is, of those that a run is given
  int64_t offset = 0;
  int64_t stride = 0;  // from row to row
  RowAxes axes{};      // from element to element of a row
};

// Rows in blocks, bytes too.
struct CacheRows {
  size_t argument = 0;
  int64_t offset = 0;
  int64_t block_stride = 0;
  int64_t stride = 0;  // from row to row of a block
  RowAxes axes{};
};

// Keys, or values.
struct PagedRows {
  int64_t element_bytes = 2;
  RowAxes dims{1, 1, 1};
  TokenRows tokens;
  CacheRows cache;

  int64_t row_bytes() const {
    return dims[0] * dims[1] * dims[2] * element_bytes;
  }
};

// A tensor of kI32 or kI64 that a run reads; in elements.
struct Integers {
  size_t argument = 0;
  DType dtype = DType::kI32;
  int64_t offset = 0;
  std::array<int64_t, 2> strides{};  // of one axis: the first
};

// Row i of the tokens goes to the cache's row of number slots[i]; a slot that
// names none is skipped. Of tokens with one slot the last is kept.
struct Scatter {
  int64_t tokens = 0;
  int64_t blocks = 0;
  int64_t block_rows = 0;
  Integers slots;
  std::vector<PagedRows> parts;  // keys, values
};

// Row t of sequence b, one sequence after the other, comes from row
// t % block_rows of block table[b][offsets[b] / block_rows + t / block_rows],
// the first quotient rounded down. Rows whose column or block is none keep what
// they hold, as do those that there is no room for.
struct Gather {
  int64_t rows = 0;  // that there is room for
  int64_t blocks = 0;
  int64_t block_rows = 0;
  int64_t sequences = 0;
  int64_t columns = 0;  // of the table
  Integers table;
  // Of the sequences; or else, one more, where each begins and the last ends:
  // such as do not ascend count as those before them.
  Integers lengths;
  bool lengths_are_ends = false;
  std::optional<Integers> offsets;  // rows
  std::vector<PagedRows> parts;
};

// Neither of 0 tokens, rows or blocks.
std::shared_ptr<const Computation> MakeScatter(Scatter scatter);
std::shared_ptr<const Computation> MakeGather(Gather gather);

}  // namespace flashacl::pages
