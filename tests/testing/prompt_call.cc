// SPDX-License-Identifier: Apache-2.0
// Building prefill calls, and their answers by definition.
#include "tests/testing/prompt_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/testing/inference_layout.h"
#include "tests/testing/softmax.h"

namespace flashacl::testing {
namespace {

std::string_view InLayout(std::string_view layout) {
  return layout == "BNSD_BSND" ? "BNSD" : layout;
}

std::string_view OutLayout(std::string_view layout) {
  return layout == "BNSD_BSND" ? "BSND" : layout;
}

int64_t MostOf(const PromptCase& c, const std::vector<int64_t>& lengths,
               int64_t all) {
  if (!c.packed() || lengths.empty()) return all;
  const std::vector<int64_t> each = c.ends() ? LengthsOf(lengths) : lengths;
  return *std::ranges::max_element(each);
}

// What masks and biases cover.
int64_t RowsOf(const PromptCase& c) { return MostOf(c, c.lengths, c.rows); }
int64_t ColumnsOf(const PromptCase& c) {
  return MostOf(c, c.ends() ? c.kv_lengths : c.lengths, c.columns);
}

std::vector<int64_t> MaskDims(const PromptCase& c) {
  const int64_t s1 = RowsOf(c) + c.more_rows;
  const int64_t s2 = ColumnsOf(c) + c.more_columns;
  switch (c.mask) {
    case PromptMask::k13:
      return {1, s1, s2};
    case PromptMask::kB3:
      return {c.sequences, s1, s2};
    case PromptMask::k114:
      return {1, 1, s1, s2};
    case PromptMask::kB14:
      return {c.sequences, 1, s1, s2};
    default:
      return {s1, s2};
  }
}

}  // namespace

std::vector<int64_t> LengthsOf(const std::vector<int64_t>& ends) {
  std::vector<int64_t> lengths;
  for (size_t b = 0; b < ends.size(); ++b) {
    lengths.push_back(ends[b] - (b == 0 ? 0 : ends[b - 1]));
  }
  return lengths;
}

PromptCall::PromptCall(const PromptCase& c, uint64_t seed)
    : OperatorFixture("aclnnPromptFlashAttention", c.version), asked(c) {
  Random random(seed);
  const std::string_view in = InLayout(c.layout);
  const auto input = [&](const RowDims& rows) {
    DeviceTensor* tensor = caller.Input(
        MaybeSpread(c.spread, c.int8 ? ACL_INT8 : c.type, DimsIn(in, rows)));
    if (c.int8) {
      tensor->FillIntegers(random, -128, 127);
    } else {
      tensor->Fill(random, -2, 2);
    }
    return tensor;
  };
  query = input({c.sequences, c.rows, c.heads, c.dim});
  key = input({c.sequences, c.columns, c.kv_heads, c.dim});
  value = input({c.sequences, c.columns, c.kv_heads, c.v_dim});
  out = caller.Output(MaybeSpread(
      c.spread, c.out_scales > 0 ? ACL_INT8 : c.type,
      DimsIn(OutLayout(c.layout), {c.sequences, c.rows, c.heads, c.v_dim})));
  if (c.mask == PromptMask::kSquare) {
    // Nobody reads it, so one element will do.
    mask = caller.Input(
        {.type = c.mask_type, .dims = {2048, 2048}, .strides = {0, 0}});
  } else if (c.mask != PromptMask::kNone) {
    mask = caller.Input(MaybeSpread(c.spread, c.mask_type, MaskDims(c)));
    for (int64_t n = 0; n < mask->elements(); ++n) {
      mask->SetNth(n, random.OneIn(3) ? 1 : 0);
    }
  }
  if (c.pse_sequences > 0) {
    pse = caller.Input(MaybeSpread(c.spread, c.type,
                                   {c.pse_sequences, c.heads, RowsOf(c) + 1,
                                    ColumnsOf(c) + c.more_columns}));
    pse->Fill(random, -1, 1);
  }
  MakeScales(random);
  if (!c.lengths.empty()) lengths = caller.Array(c.lengths);
  if (!c.kv_lengths.empty()) kv_lengths = caller.Array(c.kv_lengths);
  heads = c.heads;
  kv_heads = c.kv_heads == c.heads ? 0 : c.kv_heads;
  pre_tokens = c.pre_tokens;
  next_tokens = c.next_tokens;
  sparse_mode = c.sparse_mode;
  inner_precise = c.inner_precise;
  layout_text_.assign(c.layout.begin(), c.layout.end());
  layout_text_.push_back('\0');
  layout = layout_text_.data();
}

void PromptCall::MakeScales(Random& random) {
  const PromptCase& c = asked;
  const auto make = [&](aclDataType type, std::vector<int64_t> dims, double low,
                        double high) {
    DeviceTensor* tensor = caller.Input({.type = type, .dims = dims});
    tensor->Fill(random, low, high);
    return tensor;
  };
  if (c.int8) {
    const aclDataType type = c.whole_scales ? ACL_UINT64 : ACL_FLOAT;
    deq_scale1 = make(type, {1}, 0.0002, 0.0005);
    quant_scale1 = make(ACL_FLOAT, {1}, 100, 130);
    deq_scale2 = make(type, {1}, 0.00005, 0.0002);
    if (c.whole_scales) {
      deq_scale1->SetNth(0, 0x39CCCCCD);  // 0.00039062... and 13 bits more
      deq_scale2->SetNth(0, 0x38D1B717);  // 0.0001
    }
  }
  if (c.out_scales == 0) return;
  const aclDataType type = c.type == ACL_BF16 ? ACL_BF16 : ACL_FLOAT;
  const std::vector<int64_t> dims =
      c.out_scales == 1 ? std::vector<int64_t>{1}
                        : std::vector<int64_t>{1, c.heads, 1, c.v_dim};
  quant_scale2 = make(type, dims, 20, 90);
  if (c.out_offset) quant_offset2 = make(type, dims, -9, 9);
}

Parameters PromptCall::Pass() {
  const int version = asked.version;
  Parameters p{.arrays = {lengths},
               .reals = {asked.scale},
               .integers = {heads, pre_tokens, next_tokens, kv_heads},
               .texts = {layout}};
  Add(p, {query, key, value, pse, mask});
  if (version > 1) {
    p.arrays.push_back(kv_lengths);
    p.integers.push_back(sparse_mode);
    Add(p, {deq_scale1, quant_scale1, deq_scale2, quant_scale2, quant_offset2});
  }
  if (version > 2) p.integers.push_back(inner_precise);
  Add(p, {out});
  return p;
}

void PromptCall::ExpectAsDocumented() {
  if (!Run()) return;
  const bool fast = asked.version < 3 || inner_precise % 2 == 1;
  ExpectNear(*out, Expected(), 4.0, ProbTermError(asked.type, fast));
}

PromptCall::Extent PromptCall::ExtentOf(int64_t b) const {
  const PromptCase& c = asked;
  const auto at = [b](const std::vector<int64_t>& values, int64_t whole) {
    const size_t own = values.size() == 1 ? 0 : static_cast<size_t>(b);
    return values.empty() ? whole : values[own];
  };
  if (!c.packed()) {
    return {0, at(c.lengths, c.rows), 0, at(c.kv_lengths, c.columns)};
  }
  const auto n = static_cast<size_t>(b);
  if (c.ends()) {
    const int64_t row = b == 0 ? 0 : c.lengths[n - 1];
    const int64_t column = b == 0 ? 0 : c.kv_lengths[n - 1];
    return {row, c.lengths[n] - row, column, c.kv_lengths[n] - column};
  }
  int64_t start = 0;
  for (size_t before = 0; before < n; ++before) start += c.lengths[before];
  const int64_t rows = c.lengths.empty() ? c.rows : c.lengths[n];
  return {start, rows, start, rows};
}

bool PromptCall::Sees(int64_t b, const Extent& extent, int64_t i,
                      int64_t j) const {
  const int64_t pre = pre_tokens;
  const int64_t next = next_tokens;
  const int64_t shift = extent.columns - extent.rows;
  if (sparse_mode == 2) return j <= i;
  if (sparse_mode == 3) return j <= i + shift;
  if (sparse_mode == 4) return i + shift - pre <= j && j <= i + shift + next;
  if (mask == nullptr) return true;
  const std::vector<int64_t>& dims = mask->form().dims;
  const size_t rank = dims.size();
  const int64_t plane = rank == 2 || dims[0] == 1 ? 0 : b;
  const int64_t n = (plane * dims[rank - 2] + i) * dims[rank - 1] + j;
  if (mask->Nth(n) != 0) return false;
  return sparse_mode == 1 || (i - pre <= j && j <= i + next);
}

namespace {

// What a scale of either type says.
double ScaleOf(const DeviceTensor* tensor) {
  if (tensor->form().type == ACL_FLOAT) return tensor->Nth(0);
  const auto bits = static_cast<uint32_t>(tensor->Nth(0)) & 0xFFFFE000u;
  return std::bit_cast<float>(bits);
}

}  // namespace

// One row of one head before it becomes INT8.
std::vector<double> PromptCall::Attend(int64_t b, const Extent& extent,
                                       int64_t h, int64_t i) const {
  const PromptCase& c = asked;
  const int64_t g = h / (c.heads / c.kv_heads);
  const auto number = [&](const DeviceTensor* tensor, const At& at) {
    return Element(tensor, InLayout(c.layout), at);
  };
  std::vector<double> scores;
  for (int64_t j = 0; j < extent.columns; ++j) {
    double dot = 0;
    for (int64_t e = 0; e < c.dim; ++e) {
      dot += number(query, {b, extent.row + i, h, e, c.dim}) *
             number(key, {b, extent.column + j, g, e, c.dim});
    }
    if (c.int8) dot *= ScaleOf(deq_scale1);
    double score = dot * static_cast<float>(c.scale);
    if (pse != nullptr && c.version == 3) {
      score += pse->Get({c.pse_sequences == 1 ? 0 : b, h, i, j});
    }
    scores.push_back(Sees(b, extent, i, j) ? score : Softmax::kUnseen);
  }
  Softmax softmax(scores);
  for (double& weight : softmax.weights) {
    if (!c.int8) break;
    weight = std::min(std::rint(weight * quant_scale1->Nth(0)), 127.0) *
             ScaleOf(deq_scale2);
  }
  return softmax.Of(c.v_dim, [&](int64_t j, int64_t d) {
    return number(value, {b, extent.column + j, g, d, c.v_dim});
  });
}

double PromptCall::Quantised(double x, int64_t channel) const {
  if (asked.out_scales == 0) return x;
  const int64_t n = asked.out_scales == 1 ? 0 : channel;
  x *= quant_scale2->Nth(n);
  return quant_offset2 == nullptr ? x : x + quant_offset2->Nth(n);
}

// Rows after a sequence's end and those of sequences without keys are zeros,
// whatever the offset; what a mask hides of others is what 0 becomes.
std::vector<double> PromptCall::Expected() const {
  const PromptCase& c = asked;
  std::vector<double> expected(static_cast<size_t>(out->elements()), 0.0);
  for (int64_t b = 0; b < c.sequences; ++b) {
    const Extent extent = ExtentOf(b);
    if (extent.columns == 0) continue;
    for (int64_t n = 0; n < c.heads * extent.rows; ++n) {
      const int64_t h = n / extent.rows;
      const int64_t i = n % extent.rows;
      const std::vector<double> row = Attend(b, extent, h, i);
      for (int64_t e = 0; e < c.v_dim; ++e) {
        expected[static_cast<size_t>(
            NumberOf(OutLayout(c.layout), out->form().dims,
                     {b, extent.row + i, h, e, c.v_dim}))] =
            Quantised(row[static_cast<size_t>(e)], h * c.v_dim + e);
      }
    }
  }
  return expected;
}

}  // namespace flashacl::testing
