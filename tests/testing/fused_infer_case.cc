// SPDX-License-Identifier: Apache-2.0
// Sizes that follow from a case.
#include "tests/testing/fused_infer_case.h"

#include <algorithm>
#include <numeric>

#include "base/str.h"

namespace flashacl::testing {
namespace {

int64_t SumOf(const std::vector<int64_t>& values, size_t count) {
  const auto first = values.begin();
  return std::accumulate(first, first + static_cast<ptrdiff_t>(count),
                         int64_t{0});
}

int64_t MaxOf(const std::vector<int64_t>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

// Of sequence b, where one number is for all and none is the whole axis.
int64_t NumberFor(const std::vector<int64_t>& values, int64_t b,
                  int64_t whole) {
  if (values.empty()) return whole;
  return values[values.size() == 1 ? 0 : static_cast<size_t>(b)];
}

}  // namespace

std::string_view FusedInferCase::in() const {
  return std::string_view(layout).substr(0, layout.find('_'));
}

std::string_view FusedInferCase::out() const {
  const size_t at = layout.find('_');
  return at == std::string::npos ? layout
                                 : std::string_view(layout).substr(at + 1);
}

bool FusedInferCase::decode() const {
  return (layout == "BSH" || layout == "BSND" || layout == "BNSD") &&
         rows == 1 && dim == v_dim && rope_dim == 0;
}

int64_t FusedInferCase::total_rows() const {
  if (!packed()) return rows;
  return SumOf(lengths, lengths.size()) + surplus_rows;
}

int64_t FusedInferCase::total_columns() const {
  if (keys == FusedKeys::kList) return MaxOf(own_columns);
  if (!packed() || paged()) return columns;
  return SumOf(kv_lengths, kv_lengths.size());
}

int64_t FusedInferCase::longest_rows() const {
  return packed() ? MaxOf(lengths) : rows;
}

int64_t FusedInferCase::longest_columns() const {
  return packed() && !paged() ? MaxOf(kv_lengths) : total_columns();
}

FusedInferCase::Extent FusedInferCase::ExtentOf(int64_t b) const {
  const auto n = static_cast<size_t>(b);
  if (packed()) {
    const int64_t row = SumOf(lengths, n);
    if (paged()) return {row, lengths[n], 0, kv_lengths[n], true};
    return {row, lengths[n], SumOf(kv_lengths, n), kv_lengths[n], true};
  }
  const int64_t room =
      keys == FusedKeys::kList ? own_columns[n] : total_columns();
  Extent extent{0, decode() ? 1 : NumberFor(lengths, b, rows), 0,
                NumberFor(kv_lengths, b, room), true};
  if (query_padding && !lengths.empty() && !decode()) {
    extent.row = rows - std::max<int64_t>(*query_padding, 0) - extent.rows;
  }
  if (kv_padding && !kv_lengths.empty() && keys == FusedKeys::kOne) {
    extent.column = room - std::max<int64_t>(*kv_padding, 0) - extent.columns;
  }
  extent.fits = extent.row >= 0 && extent.column >= 0;
  return extent;
}

std::string ToString(const FusedInferCase& c) {
  const auto optional = [](const std::optional<int64_t>& value) {
    return value ? std::to_string(*value) : "none";
  };
  std::string text =
      Str("V{} type {} {} B {} N {}/{} S {}/{} D {}+{}/{} precise {} lse {} "
          "spread {} lengths [{}]+{} [{}] ",
          c.version, static_cast<int>(c.type), c.layout, c.sequences, c.heads,
          c.kv_heads, c.rows, c.columns, c.dim, c.rope_dim, c.v_dim,
          c.inner_precise, c.lse, c.spread, Join(c.lengths, ", "),
          c.surplus_rows, Join(c.kv_lengths, ", "));
  text += Str(
      "keys {} [{}] block {}{}{} mask {} rank {}{} type {} +{}+{} mode "
      "{} tokens {} {} pse {} sink {} padding {} {} prefix {} of {} ",
      static_cast<int>(c.keys), Join(c.own_columns, ", "), c.block_size,
      c.shared_pages ? " shared" : "", c.missing_pages ? " missing" : "",
      static_cast<int>(c.mask), c.mask_rank, c.mask_for_all ? " for all" : "",
      static_cast<int>(c.mask_type), c.more_rows, c.more_columns, c.sparse_mode,
      c.pre_tokens, c.next_tokens, c.pse_sequences,
      c.sink ? static_cast<int>(*c.sink) : -1, optional(c.query_padding),
      optional(c.kv_padding), optional(c.prefix_length), c.prefix);
  return text + Str("scales {} bits {} modes {} {} form {}{} out {}{} type {}"
                    "{}{}",
                    static_cast<int>(c.scales), c.int4 ? -4 : c.bits,
                    c.key_mode, c.value_mode, c.scale_form,
                    c.offsets ? "+offset" : "", c.out_scales,
                    c.out_offset ? "+offset" : "",
                    static_cast<int>(c.out_scale_type), c.int8 ? " int8" : "",
                    c.latent ? " latent" : "");
}

}  // namespace flashacl::testing
