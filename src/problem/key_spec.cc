// SPDX-License-Identifier: Apache-2.0
// What a spec says of keys and values, as tensors, and back.
#include <limits>

#include "problem/spec_parts.h"

namespace flashacl::spec_parts {
namespace {

using Device = Lengths::Device;
using Encoding = ProblemSpec::Encoding;
using Rows = KvSource::Rows;
using Scales = ProblemSpec::Scales;
using Selection = KvSource::Selection;

// At most what overflows a span: CheckProblem refuses it then.
int64_t Product(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(std::max<int64_t>(a, 1), std::max<int64_t>(b, 1),
                             &product)) {
    return std::numeric_limits<int64_t>::max();
  }
  return product;
}

// The same rows as [first, head, block of channels, row, channel].
TensorSpec InBlocks(TensorSpec spec, int64_t channels) {
  if (channels == 0) return spec;
  const int64_t block = CeilDiv(channels, NumbersOf(spec.dtype));
  spec.channel_block = block;
  spec.block_stride = Product(spec.dims[1], block);
  const int64_t head = Product(CeilDiv(spec.dims[3], block), spec.block_stride);
  const bool repeats = spec.strides[0] == 0;
  spec.strides = {repeats ? 0 : Product(spec.dims[2], head), block, head, 1};
  return spec;
}

// A tensor with a row per key, channel after channel.
TensorSpec PlainKeyRows(const ProblemSpec& problem_spec, DType dtype,
                        int64_t channels) {
  const int64_t dim = CeilDiv(channels, NumbersOf(dtype));
  const int64_t most = Most(problem_spec.columns);
  if (problem_spec.source == Rows::kPaged) {
    int64_t pages = 0;
    for (int64_t length : problem_spec.columns) {
      pages += CeilDiv(length, std::max<int64_t>(problem_spec.page_rows, 1));
    }
    return DenseSpec(
        dtype, {pages, problem_spec.page_rows, problem_spec.kv_heads, dim});
  }
  if (problem_spec.source == Rows::kList) {
    return DenseSpec(dtype, {1, most, problem_spec.kv_heads, dim});
  }
  if (problem_spec.key_padding) {
    return DenseSpec(dtype,
                     {Count(problem_spec), most, problem_spec.kv_heads, dim});
  }
  const bool ends = problem_spec.key_lengths == Device::kEnds;
  const int64_t rows = ends ? most : Total(problem_spec.columns);
  return Packed(dtype, {Count(problem_spec), rows, problem_spec.kv_heads, dim});
}

TensorSpec KeyRows(const ProblemSpec& problem_spec, DType dtype, int64_t dim) {
  return InBlocks(PlainKeyRows(problem_spec, dtype, dim),
                  problem_spec.channel_block);
}

// Ropes are in one tensor even where keys are in lists.
TensorSpec KeyRopeRows(const ProblemSpec& problem_spec) {
  if (problem_spec.source != Rows::kList) {
    return KeyRows(problem_spec, problem_spec.dtype, problem_spec.rope_dim);
  }
  return DenseSpec(problem_spec.dtype,
                   {Count(problem_spec), Most(problem_spec.columns),
                    problem_spec.kv_heads, problem_spec.rope_dim});
}

std::vector<TensorSpec> ListOf(const ProblemSpec& problem_spec,
                               const TensorSpec& rows) {
  std::vector<TensorSpec> list;
  if (problem_spec.source != Rows::kList || !rows.present()) return list;
  list.reserve(problem_spec.columns.size());
  for (int64_t length : problem_spec.columns) {
    list.push_back(
        DenseSpec(rows.dtype, {1, length, rows.dims[2], rows.dims[3]}));
  }
  return list;
}

bool InPages(const Encoding& encoding) {
  return encoding.scales == Scales::kPageRow ||
         encoding.scales == Scales::kPageRowHead;
}

// [sequence or page, row, kv_head]
TensorSpec RowFactorSpec(const ProblemSpec& problem_spec,
                         const Encoding& encoding, int64_t pages) {
  const bool by_head = encoding.scales == Scales::kRowHead ||
                       encoding.scales == Scales::kPageRowHead;
  const bool paged = InPages(encoding);
  TensorSpec spec = DenseSpec(
      DType::kF32, {paged ? pages : Count(problem_spec),
                    paged ? problem_spec.page_rows : Most(problem_spec.columns),
                    by_head ? problem_spec.kv_heads : 1, 1});
  if (!by_head) spec.strides[2] = 0;
  return spec;
}

// The slots of what turns quantised keys or values into numbers.
struct FactorSlots {
  Slot rows, scale, offset, row_scale, row_offset;
};

constexpr FactorSlots kKeyFactors{Slot::kKey, Slot::kKeyScale, Slot::kKeyOffset,
                                  Slot::kKeyRowScale, Slot::kKeyRowOffset};
constexpr FactorSlots kValueFactors{Slot::kValue, Slot::kValueScale,
                                    Slot::kValueOffset, Slot::kValueRowScale,
                                    Slot::kValueRowOffset};

void BuildFactors(const ProblemSpec& problem_spec, const Encoding& encoding,
                  const FactorSlots& slots, AttentionProblem& problem) {
  const bool by_row = encoding.scales > Scales::kChannel;
  const TensorSpec& rows = problem[slots.rows];
  const TensorSpec factor =
      by_row
          ? RowFactorSpec(problem_spec, encoding, rows.dims[0])
          : FactorSpec(encoding.scales, problem_spec.kv_heads, rows.channels());
  problem[by_row ? slots.row_scale : slots.scale] = factor;
  if (encoding.offset) {
    problem[by_row ? slots.row_offset : slots.offset] = factor;
  }
  problem.kv.row_scales_in_pages |= InPages(encoding);
}

Encoding EncodingOfRows(const AttentionProblem& problem,
                        const FactorSlots& slots) {
  const TensorSpec& spec = problem[slots.row_scale];
  if (!spec.present()) return EncodingOf(problem, slots.scale, slots.offset);
  const bool by_head = spec.strides[2] != 0;
  const bool paged = problem.kv.row_scales_in_pages;
  const Scales scales =
      paged ? (by_head ? Scales::kPageRowHead : Scales::kPageRow)
            : (by_head ? Scales::kRowHead : Scales::kRow);
  return {scales, problem.has(slots.row_offset)};
}

}  // namespace

void BuildKeys(const ProblemSpec& problem_spec, AttentionProblem& problem) {
  const bool quantised = problem_spec.keys.scales != Scales::kNone;
  const DType dtype = !quantised          ? problem_spec.dtype
                      : problem_spec.int4 ? DType::kI4x8
                                          : DType::kI8;
  KvSource& kv = problem.kv;
  kv.rows = problem_spec.source;
  kv.selection = problem_spec.selection;
  kv.page_rows = problem_spec.page_rows;
  kv.gather_rows = problem_spec.gather_rows;
  kv.value_is_key = problem_spec.value_is_key;
  problem[Slot::kKey] = KeyRows(problem_spec, dtype, problem_spec.qk_dim);
  if (problem_spec.rope_dim > 0) {
    problem[Slot::kKeyRope] = KeyRopeRows(problem_spec);
  }
  if (!problem_spec.value_is_key) {
    problem[Slot::kValue] = KeyRows(problem_spec, dtype, problem_spec.v_dim);
  }
  const auto prefix = [&](int64_t dim) {
    return InBlocks(
        DenseSpec(dtype, {1, problem_spec.prefix, problem_spec.kv_heads,
                          CeilDiv(dim, NumbersOf(dtype))}),
        problem_spec.channel_block);
  };
  if (problem_spec.prefix > 0) {
    problem[Slot::kKeyPrefix] = prefix(problem_spec.qk_dim);
    if (!problem_spec.value_is_key) {
      problem[Slot::kValuePrefix] = prefix(problem_spec.v_dim);
    }
  }
  kv.key_list = ListOf(problem_spec, problem[Slot::kKey]);
  kv.value_list = ListOf(problem_spec, problem[Slot::kValue]);
  if (problem_spec.source == Rows::kPaged) {
    const int64_t pages = CeilDiv(Most(problem_spec.columns),
                                  std::max<int64_t>(problem_spec.page_rows, 1));
    problem[Slot::kBlockTable] =
        DenseSpec(DType::kI32, {Count(problem_spec), pages, 1, 1});
  }
  if (problem_spec.selection == Selection::kTopK) {
    const int64_t rows = problem[Slot::kQuery].dims[1];
    problem[Slot::kTopK] = Packed(
        DType::kI32,
        {Count(problem_spec), rows, problem_spec.kv_heads, problem_spec.top_k});
  }
  if (!quantised) return;
  BuildFactors(problem_spec, problem_spec.keys, kKeyFactors, problem);
  if (problem_spec.value_is_key) return;
  const Encoding& values = problem_spec.values;
  BuildFactors(problem_spec,
               values.scales == Scales::kNone ? problem_spec.keys : values,
               kValueFactors, problem);
}

void SpecKeys(const AttentionProblem& problem, ProblemSpec& problem_spec) {
  const KvSource& kv = problem.kv;
  problem_spec.source = kv.rows;
  problem_spec.selection = kv.selection;
  problem_spec.page_rows = kv.page_rows;
  problem_spec.gather_rows = kv.gather_rows;
  problem_spec.value_is_key = kv.value_is_key;
  problem_spec.top_k = problem[Slot::kTopK].dims[3];
  const TensorSpec& key = problem[Slot::kKey];
  problem_spec.channel_block = key.channel_block * NumbersOf(key.dtype);
  problem_spec.int4 = key.dtype == DType::kI4x8;
  problem_spec.keys = EncodingOfRows(problem, kKeyFactors);
  problem_spec.values = EncodingOfRows(problem, kValueFactors);
}

}  // namespace flashacl::spec_parts
