// SPDX-License-Identifier: Apache-2.0
// Where the keys and values of one sequence and kv head are, whatever holds
// them: strided tensors, lists or pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/range.h"
#include "cpu/element_format.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// x_hat = scale * (x + offset) channel by channel; null: x_hat = x. An offset
// alone may be null.
struct QuantParams {
  const float* scale = nullptr;
  const float* offset = nullptr;
};

// A number for every row, `outer` and `row` floats from page to page and from
// row to row.
struct RowFactor {
  const float* base = nullptr;  // null: there is none
  int64_t outer = 0;
  int64_t row = 0;
};

// The rows of one kind (keys, their ropes, or values).
struct RowSource {
  const std::byte* base = nullptr;  // null: there are none
  ElementFormat format;
  int64_t outer_bytes = 0;  // from page to page
  int64_t row_bytes = 0;
  int64_t channels = 0;
  QuantParams quant;
  // x_hat = row_scale * (x + row_offset), in place of `quant`.
  RowFactor row_scale, row_offset;

  bool scaled_by_row() const { return row_scale.base != nullptr; }

  // Null if there are none.
  const std::byte* At(int64_t page, int64_t row) const {
    return base == nullptr ? nullptr
                           : base + page * outer_bytes + row * row_bytes;
  }
};

class KvRows {
 public:
  KvRows() = default;
  KvRows(const AttentionProblem& problem, const Bindings& bindings,
         const Sequence& extent, int64_t sequence, int64_t kv_head);

  // Addresses of the rows of `cols`, of all three kinds where they exist; null
  // for a column that no page holds. Returns whether there is such a column.
  // Each array has room for cols.size().
  bool Locate(Range cols, const std::byte** key, const std::byte** rope,
              const std::byte** value) const;

  // The same for columns that all exist, in any order.
  void LocateListed(std::span<const int64_t> columns, const std::byte** key,
                    const std::byte** rope, const std::byte** value) const;

  // The factors of `cols`; 0 where there is none, or no page.
  void LoadRowFactors(const RowFactor& factor, Range cols, float* to) const;

  // Whether a page holds the column; of other rows, true.
  bool Exists(int64_t column) const {
    return table_ == nullptr || PageOf(column) >= 0;
  }

  // Makes column j of Locate what column columns[j] was, which exists; there is
  // no prefix. Exists and factors do not follow. `columns` must outlive this.
  void List(const int64_t* columns) { listed_ = columns; }

  // Drops values that are the leading channels of the keys' own memory, which
  // then need not be read twice.
  void DropSharedValues() {
    if (value.base == key.base && value.row_bytes == key.row_bytes &&
        value.outer_bytes == key.outer_bytes && value.format == key.format &&
        value.channels <= key.channels && key.quant.scale == nullptr &&
        value.quant.scale == nullptr && !key.scaled_by_row() &&
        !value.scaled_by_row()) {
      value.base = nullptr;
    }
  }

  // Values, or the keys whose first channels they are.
  const RowSource& values() const {
    return value.base == nullptr ? key : value;
  }

  // The other way round: values that are keys become rows of their own, which
  // are read apart.
  void NameSharedValues() {
    if (value.base != nullptr) return;
    const int64_t channels = value.channels;
    value = key;
    value.channels = channels;
  }

  RowSource key, rope, value;

 private:
  // Rows of the columns before the sequence's own.
  struct Prefix {
    const std::byte* base = nullptr;
    int64_t row_bytes = 0;
  };

  int64_t PageOf(int64_t column) const;  // negative: there is none

  const int64_t* listed_ = nullptr;   // null: columns are not listed
  const std::byte* table_ = nullptr;  // the sequence's row of the block table
  DType table_type_ = DType::kNone;
  int64_t table_step_bytes_ = 0;
  int64_t page_rows_ = 0;
  int64_t pages_ = 0;
  bool factors_in_pages_ = false;
  int64_t prefix_ = 0;
  Prefix key_prefix_, value_prefix_;
};

}  // namespace flashacl::cpu
