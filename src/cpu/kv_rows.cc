// SPDX-License-Identifier: Apache-2.0
// Scalar code: a step of keys costs one address each, against at least 64
// multiply-adds per key and query row.
#include "cpu/kv_rows.h"

#include <algorithm>

#include "base/number.h"

namespace flashacl::cpu {
namespace {

// The rows in `slot`, from the sequence's first key on; pages from their own
// first row on.
RowSource SourceOf(const TensorSpec& spec, const std::byte* base, bool paged,
                   int64_t outer, const Sequence& extent, int64_t kv_head) {
  RowSource source;
  if (!spec.present() || base == nullptr) return source;
  source.format = ElementFormat(spec);
  const int64_t bytes = source.format.element_bytes;
  const int64_t first = paged ? spec.At(0, 0, kv_head)
                              : spec.At(outer, extent.keys.first, kv_head);
  source.base = base + first * bytes;
  source.outer_bytes = spec.strides[0] * bytes;
  source.row_bytes = spec.strides[1] * bytes;
  source.channels = spec.channels();
  return source;
}

// The factors in `slot`, from the sequence's first key on; those in pages from
// their own first row on.
RowFactor FactorOf(const AttentionProblem& problem, const Bindings& bindings,
                   Slot slot, const Sequence& extent, int64_t sequence,
                   int64_t kv_head) {
  const TensorSpec& spec = problem[slot];
  if (!spec.present()) return {};
  const bool tensor_rows = spec.placement == Placement::kTensorRows;
  const int64_t first =
      problem.kv.row_scales_in_pages
          ? spec.At(0, 0, kv_head)
          : spec.At(sequence, tensor_rows ? extent.keys.first : 0, kv_head);
  return {reinterpret_cast<const float*>(bindings[slot]) + first,
          spec.strides[0], spec.strides[1]};
}

}  // namespace

KvRows::KvRows(const AttentionProblem& problem, const Bindings& bindings,
               const Sequence& extent, int64_t sequence, int64_t kv_head) {
  const KvSource& kv = problem.kv;
  const bool paged = kv.rows == KvSource::Rows::kPaged;
  const bool listed = kv.rows == KvSource::Rows::kList;
  const size_t b = static_cast<size_t>(sequence);
  const auto source = [&](Slot slot) {
    return SourceOf(problem[slot], bindings[slot], paged, sequence, extent,
                    kv_head);
  };
  // There is one sequence in a tensor of a list, whatever its number.
  key = listed ? SourceOf(kv.key_list[b], bindings.key_list[b], false, 0,
                          extent, kv_head)
               : source(Slot::kKey);
  rope = source(Slot::kKeyRope);
  if (!kv.value_is_key) {
    value = listed ? SourceOf(kv.value_list[b], bindings.value_list[b], false,
                              0, extent, kv_head)
                   : source(Slot::kValue);
  }
  if (extent.prefix > 0) {
    // Tensors of a list may be empty, and then have no address.
    const auto or_prefix = [&](RowSource& own, Slot slot) {
      if (own.base == nullptr) own = source(slot);
    };
    or_prefix(key, Slot::kKeyPrefix);
    if (!kv.value_is_key) or_prefix(value, Slot::kValuePrefix);
  }
  key.channels = problem.qk_dim;
  rope.channels = problem.rope_dim;
  value.channels = problem.v_dim;
  const auto factor = [&](Slot slot) {
    return FactorOf(problem, bindings, slot, extent, sequence, kv_head);
  };
  key.row_scale = factor(Slot::kKeyRowScale);
  key.row_offset = factor(Slot::kKeyRowOffset);
  value.row_scale = factor(Slot::kValueRowScale);
  value.row_offset = factor(Slot::kValueRowOffset);
  factors_in_pages_ = kv.row_scales_in_pages;
  const auto prefix = [&](Slot slot) -> Prefix {
    const TensorSpec& spec = problem[slot];
    if (!spec.present()) return {};
    const int64_t bytes = SizeOf(spec.dtype);
    return {bindings[slot] + spec.At(0, 0, kv_head) * bytes,
            spec.strides[1] * bytes};
  };
  prefix_ = extent.prefix;
  key_prefix_ = prefix(Slot::kKeyPrefix);
  value_prefix_ = prefix(Slot::kValuePrefix);
  if (!paged) return;
  const TensorSpec& table = problem[Slot::kBlockTable];
  table_type_ = table.dtype;
  table_ =
      bindings[Slot::kBlockTable] + table.At(sequence) * SizeOf(table.dtype);
  table_step_bytes_ = table.strides[1] * SizeOf(table.dtype);
  page_rows_ = kv.page_rows;
  pages_ = problem[Slot::kKey].dims[0];
}

int64_t KvRows::PageOf(int64_t column) const {
  if (table_ == nullptr) return 0;
  const std::byte* const entry =
      table_ + (column / page_rows_) * table_step_bytes_;
  const int64_t page = ReadIndex(table_type_, entry);
  return page < pages_ ? page : -1;
}

void KvRows::LocateListed(std::span<const int64_t> columns,
                          const std::byte** key_at, const std::byte** rope_at,
                          const std::byte** value_at) const {
  for (size_t n = 0; n < columns.size(); ++n) {
    const int64_t page = PageOf(columns[n]);
    const int64_t row =
        table_ == nullptr ? columns[n] : columns[n] % page_rows_;
    key_at[n] = key.At(page, row);
    rope_at[n] = rope.At(page, row);
    value_at[n] = value.At(page, row);
  }
}

bool KvRows::Locate(Range cols, const std::byte** key_at,
                    const std::byte** rope_at,
                    const std::byte** value_at) const {
  if (listed_ != nullptr) {
    LocateListed({listed_ + cols.first, static_cast<size_t>(cols.size())},
                 key_at, rope_at, value_at);
    return false;
  }
  bool absent = false;
  if (cols.first < prefix_ && !cols.empty()) {
    const int64_t count = std::min(prefix_, cols.last) - cols.first;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t j = cols.first + n;
      key_at[n] = key_prefix_.base + j * key_prefix_.row_bytes;
      rope_at[n] = nullptr;
      value_at[n] = value_prefix_.base == nullptr
                        ? nullptr
                        : value_prefix_.base + j * value_prefix_.row_bytes;
    }
    key_at += count;
    rope_at += count;
    value_at += count;
    cols.first += count;
  }
  // Columns whose rows lie evenly: all of them, or those of a page.
  for (int64_t j = cols.first; j < cols.last;) {
    int64_t page = 0, row = j - prefix_, last = cols.last;
    if (table_ != nullptr) {
      const int64_t index = j / page_rows_;
      page = PageOf(j);
      row = j - index * page_rows_;
      last = std::min(last, (index + 1) * page_rows_);
    }
    const auto locate = [&](const RowSource& source, const std::byte** at) {
      at += j - cols.first;
      if (page < 0 || source.base == nullptr) {
        std::fill_n(at, last - j, nullptr);
        return;
      }
      const std::byte* next = source.At(page, row);
      for (int64_t n = 0; n < last - j; ++n) {
        at[n] = next;
        next += source.row_bytes;
      }
    };
    locate(key, key_at);
    locate(rope, rope_at);
    locate(value, value_at);
    absent |= page < 0;
    j = last;
  }
  return absent;
}

void KvRows::LoadRowFactors(const RowFactor& factor, Range cols,
                            float* to) const {
  if (factor.base == nullptr) {
    std::fill_n(to, cols.size(), 0.0f);
    return;
  }
  for (int64_t j = cols.first; j < cols.last;) {
    int64_t page = 0, row = j, last = cols.last;
    if (factors_in_pages_) {
      const int64_t index = j / page_rows_;
      page = PageOf(j);
      row = j - index * page_rows_;
      last = std::min(last, (index + 1) * page_rows_);
    }
    const float* next = factor.base +
                        std::max<int64_t>(page, 0) * factor.outer +
                        row * factor.row;
    const int64_t count = last - j;
    if (page < 0) {
      std::fill_n(to, count, 0.0f);
    } else if (factor.row == 1) {
      std::copy_n(next, count, to);
    } else {
      for (int64_t n = 0; n < count; ++n) to[n] = next[n * factor.row];
    }
    to += count;
    j = last;
  }
}

}  // namespace flashacl::cpu
