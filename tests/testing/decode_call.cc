// SPDX-License-Identifier: Apache-2.0
// Building decode calls, and their answers by definition.
#include "tests/testing/decode_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "tests/testing/inference_layout.h"
#include "tests/testing/rounding.h"
#include "tests/testing/softmax.h"

namespace flashacl::testing {
namespace {

std::vector<int64_t> ScaleDims(Scales scales, int64_t n, int64_t d) {
  switch (scales) {
    case Scales::kN1D:
      return {n, 1, d};
    case Scales::k1ND:
      return {1, n, d};
    case Scales::kND:
      return {n, d};
    case Scales::kH:
      return {n * d};
    default:
      return {};
  }
}

// Of channel d of head h. The shapes are all [.., head, channel] in memory.
double Factor(const DeviceTensor* tensor, Scales scales, int64_t channel,
              int64_t first) {
  return tensor->Nth(first + (scales == Scales::kTensor ? 0 : channel));
}

}  // namespace

std::string ToString(const DecodeCase& c) {
  std::string lengths;
  for (const int64_t length : c.lengths) lengths += Str(" {}", length);
  for (const int64_t s : c.own_columns) lengths += Str(" of {}", s);
  return Str(
      "type {} {} keys {} B {} N {}/{} S {} D {} block {} lengths{} mask rank "
      "{} type {} pse {} +{} antiquant {}{} quant {}{} type {} padding {} "
      "spread {} V{}",
      static_cast<int>(c.type), c.layout, static_cast<int>(c.keys), c.sequences,
      c.heads, c.kv_heads, c.columns, c.dim, c.block_size, lengths, c.mask_rank,
      static_cast<int>(c.mask_type), c.pse_sequences, c.more_columns,
      static_cast<int>(c.key_scales), c.key_offset ? "+offset" : "",
      static_cast<int>(c.out_scales), c.out_offset ? "+offset" : "",
      static_cast<int>(c.out_scale_type),
      c.padding ? std::to_string(*c.padding) : "none", c.spread, c.version);
}

DecodeCase RandomDecodeCase(Random& random) {
  static constexpr const char* kLayouts[] = {"BSH", "BSND", "BNSD"};
  static constexpr aclDataType kMasks[] = {ACL_BOOL, ACL_INT8, ACL_UINT8};
  DecodeCase c;
  c.type = random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  c.layout = kLayouts[random.Within(0, 2)];
  c.keys = static_cast<DecodeKeys>(random.Within(0, 3));
  if (c.keys == DecodeKeys::kBlocksOfHeads) c.layout = "BNSD";
  c.sequences = random.Within(1, 4);
  if (c.keys == DecodeKeys::kList && c.sequences == 1) c.sequences = 2;
  c.kv_heads = random.Within(1, 3);
  c.heads = c.kv_heads * random.Within(1, 5);
  c.dim = random.OneIn(2) ? random.Within(1, 40) : 16 * random.Within(1, 4);
  c.columns = random.OneIn(12) ? 0 : random.Within(1, 24);
  c.inner_precise = random.Within(0, 1);
  c.spread = random.OneIn(3);
  if (random.OneIn(2)) {
    c.key_scales = static_cast<Scales>(random.Within(1, 5));
    c.key_offset = random.OneIn(2);
  }
  if (c.paged()) {
    c.block_size = 32 * random.Within(1, 2);
    c.columns = c.block_size * random.Within(1, 3);
  }
  if (c.keys == DecodeKeys::kList) {
    for (int64_t b = 0; b < c.sequences; ++b) {
      c.own_columns.push_back(random.Within(0, 24));
    }
  }
  if (c.paged() || random.OneIn(2)) {
    for (int64_t b = 0; b < c.sequences; ++b) {
      const int64_t room = c.own_columns.empty()
                               ? c.columns
                               : c.own_columns[static_cast<size_t>(b)];
      c.lengths.push_back(random.Within(0, room));
    }
    if (c.own_columns.empty() && random.OneIn(4)) c.lengths.resize(1);
    if (c.lengths.size() > 1 && random.OneIn(4)) c.lengths.push_back(999);
  }
  if (random.OneIn(3)) c.padding = random.Within(-1, 9);
  if (random.OneIn(2)) c.mask_rank = static_cast<size_t>(random.Within(2, 4));
  c.mask_type = kMasks[random.Within(0, 2)];
  if (random.OneIn(2)) c.pse_sequences = random.OneIn(2) ? 1 : c.sequences;
  c.more_columns = random.OneIn(3) ? random.Within(1, 12) : 0;
  if (random.OneIn(3)) {
    c.out_scales = static_cast<Scales>(random.Within(1, 5));
    c.out_offset = random.OneIn(2);
    if (c.type == ACL_BF16 && random.OneIn(2)) c.out_scale_type = ACL_BF16;
  }
  return c;
}

DecodeCase RandomEarlierDecodeCase(Random& random) {
  DecodeCase c = RandomDecodeCase(random);
  c.version = static_cast<int>(random.Within(1, 3));
  c.padding.reset();
  if (c.version == 3) return c;
  c.key_scales = Scales::kNone;
  if (c.version == 1) c.out_scales = Scales::kNone;
  if (c.paged()) c.keys = DecodeKeys::kSingle;
  return c;
}

DecodeCall::DecodeCall(const DecodeCase& c, uint64_t seed)
    : OperatorFixture("aclnnIncreFlashAttention", c.version), asked(c) {
  Random random(seed);
  const std::vector<int64_t> rows =
      DimsIn(c.layout, {c.sequences, 1, c.heads, c.dim});
  query = caller.Input(MaybeSpread(c.spread, c.type, rows));
  query->Fill(random, -2, 2);
  const bool int8 = c.out_scales != Scales::kNone;
  out = caller.Output(MaybeSpread(c.spread, int8 ? ACL_INT8 : c.type, rows));
  MakeKeys(random);
  MakeGrids(random);
  MakeScales(random);
  if (!c.lengths.empty()) lengths = caller.Array(c.lengths);
  if (c.padding) {
    padding = caller.Input({.type = ACL_INT64, .dims = {1}});
    padding->SetNth(0, static_cast<double>(*c.padding));
  }
  heads = c.heads;
  kv_heads = c.kv_heads == c.heads ? 0 : c.kv_heads;
  block_size = c.block_size;
  inner_precise = c.inner_precise;
  layout_text_.assign(c.layout.begin(), c.layout.end());
  layout_text_.push_back('\0');
  layout = layout_text_.data();
}

// With blocks, more of them than needed, in no order; what no sequence reaches
// is listed as -1.
void DecodeCall::MakeKeys(Random& random) {
  const DecodeCase& c = asked;
  const bool int8 = c.key_scales != Scales::kNone;
  const aclDataType type = int8 ? ACL_INT8 : c.type;
  const int64_t pages = c.paged() ? c.columns / c.block_size : 0;
  const int64_t blocks = c.sequences * pages + 2;
  const auto make = [&](int64_t member) {
    std::vector<int64_t> dims =
        DimsIn(c.layout, {c.sequences, c.columns, c.kv_heads, c.dim});
    if (c.keys == DecodeKeys::kList) {
      dims = DimsIn(c.layout, {1, c.own_columns[static_cast<size_t>(member)],
                               c.kv_heads, c.dim});
    } else if (c.keys == DecodeKeys::kBlocksOfRows) {
      dims = {blocks, c.block_size, c.kv_heads * c.dim};
    } else if (c.keys == DecodeKeys::kBlocksOfHeads) {
      dims = {blocks, c.kv_heads, c.block_size, c.dim};
    }
    DeviceTensor* tensor = caller.Input(MaybeSpread(c.spread, type, dims));
    if (int8) {
      tensor->FillIntegers(random, -128, 127);
    } else {
      tensor->Fill(random, -2, 2);
    }
    return tensor;
  };
  const bool listed = c.keys == DecodeKeys::kList;
  for (int64_t b = 0; b < (listed ? c.sequences : 1); ++b) {
    keys.push_back(make(b));
    values.push_back(make(b));
  }
  if (!c.paged()) return;
  block_table =
      caller.Input(MaybeSpread(c.spread, ACL_INT32, {c.sequences, pages}));
  for (int64_t b = 0; b < c.sequences; ++b) {
    const int64_t length =
        c.lengths[c.lengths.size() == 1 ? 0 : static_cast<size_t>(b)];
    for (int64_t page = 0; page < pages; ++page) {
      const int64_t block = blocks - 1 - (b * pages + page);
      const bool reached = page * c.block_size < length;
      block_table->Set({b, page}, reached ? static_cast<double>(block) : -1);
    }
  }
}

void DecodeCall::MakeGrids(Random& random) {
  const DecodeCase& c = asked;
  int64_t columns = c.columns;
  if (!c.own_columns.empty()) {
    columns = *std::ranges::max_element(c.own_columns);
  }
  columns += c.more_columns;
  // A tensor without elements would be none.
  if (c.mask_rank > 0) {
    std::vector<int64_t> dims(c.mask_rank, 1);
    dims.front() = c.sequences;
    dims.back() = columns;
    mask = caller.Input(MaybeSpread(c.spread, c.mask_type, dims));
    for (int64_t n = 0; n < mask->elements(); ++n) {
      mask->SetNth(n, random.OneIn(3) ? 1 : 0);
    }
  }
  if (c.pse_sequences > 0) {
    pse = caller.Input(
        MaybeSpread(c.spread, c.type, {c.pse_sequences, c.heads, 1, columns}));
    pse->Fill(random, -1, 1);
  }
}

void DecodeCall::MakeScales(Random& random) {
  const DecodeCase& c = asked;
  const auto make = [&](aclDataType type, std::vector<int64_t> dims, double low,
                        double high) {
    DeviceTensor* tensor = caller.Input({.type = type, .dims = dims});
    tensor->Fill(random, low, high);
    return tensor;
  };
  if (c.key_scales != Scales::kNone) {
    std::vector<int64_t> dims = ScaleDims(c.key_scales, c.kv_heads, c.dim);
    dims.insert(dims.begin(), 2);
    antiquant_scale = make(c.type, dims, 0.005, 0.02);
    if (c.key_offset) antiquant_offset = make(c.type, dims, -9, 9);
  }
  if (c.out_scales != Scales::kNone) {
    std::vector<int64_t> dims = ScaleDims(c.out_scales, c.heads, c.dim);
    if (dims.empty()) dims = {1};
    quant_scale2 = make(c.out_scale_type, dims, 20, 90);
    if (c.out_offset) quant_offset2 = make(c.out_scale_type, dims, -9, 9);
  }
}

Parameters DecodeCall::Pass() {
  const int version = asked.version;
  Parameters p{.arrays = {lengths},
               .reals = {asked.scale},
               .integers = {heads, kv_heads},
               .texts = {layout}};
  p.tensors = {HandleOf(query), null_keys ? nullptr : caller.List(keys),
               null_values ? nullptr : caller.List(values), HandleOf(pse),
               HandleOf(mask)};
  if (version > 1) {
    Add(p, {dequant_scale1, quant_scale1, dequant_scale2, quant_scale2,
            quant_offset2});
  }
  if (version > 2) {
    Add(p, {antiquant_scale, antiquant_offset, block_table});
    p.integers.insert(p.integers.end(), {block_size, inner_precise});
  }
  if (version > 3) Add(p, {padding});
  Add(p, {out});
  return p;
}

void DecodeCall::ExpectAsDocumented() {
  if (!Run()) return;
  ExpectNear(*out, Expected(), 4.0, ProbTermError(asked.type, fast()),
             Int16Errors());
}

// A score errs by half a unit for each channel, times the key; a result by
// twice the greatest error of a score, and by half a unit of each prob, times
// the greatest value.
double DecodeCall::Int16Error(int64_t b, int64_t h) const {
  const DecodeCase& c = asked;
  const int64_t g = h / (c.heads / c.kv_heads);
  const auto [first, last] = KeysOf(b);
  double greatest = 0, bytes = 0, value = 0;
  for (int64_t d = 0; d < c.dim; ++d) {
    const double q = Element(query, c.layout, {b, 0, h, d, c.dim});
    greatest = std::max(greatest, std::fabs(q * Scale(0, g * c.dim + d)));
  }
  for (int64_t j = first; j < last; ++j) {
    double sum = 0;
    for (int64_t d = 0; d < c.dim; ++d) {
      sum += std::fabs(RowElement(keys, b, j, g, d));
      value = std::max(value, std::fabs(Decoded(1, b, j, g, d)));
    }
    bytes = std::max(bytes, sum);
  }
  const double of_score = kHalfUnit * greatest * bytes * std::fabs(c.scale);
  const double of_probs = kHalfUnit * static_cast<double>(last - first);
  return value * (2.01 * of_score + of_probs);
}

std::vector<double> DecodeCall::Int16Errors() const {
  const DecodeCase& c = asked;
  std::vector<double> errors(static_cast<size_t>(out->elements()));
  if (!fast() || c.key_scales == Scales::kNone || c.dim % 16 != 0) {
    return errors;
  }
  for (int64_t row = 0; row < c.sequences * c.heads; ++row) {
    const double error = Int16Error(row / c.heads, row % c.heads);
    for (int64_t d = 0; d < c.dim; ++d) {
      double& at = errors[static_cast<size_t>(row * c.dim + d)];
      at = error;
      if (c.out_scales == Scales::kNone) continue;
      at *= std::fabs(
          Factor(quant_scale2, c.out_scales, row % c.heads * c.dim + d, 0));
    }
  }
  return errors;
}

int64_t DecodeCall::ColumnsOf(int64_t b) const {
  return asked.own_columns.empty() ? asked.columns
                                   : asked.own_columns[static_cast<size_t>(b)];
}

double DecodeCall::RowElement(const std::vector<DeviceTensor*>& from, int64_t b,
                              int64_t j, int64_t g, int64_t d) const {
  const DecodeCase& c = asked;
  if (c.keys == DecodeKeys::kList) {
    return Element(from[static_cast<size_t>(b)], c.layout, {0, j, g, d, c.dim});
  }
  if (!c.paged()) return Element(from[0], c.layout, {b, j, g, d, c.dim});
  const auto block =
      static_cast<int64_t>(block_table->Get({b, j / c.block_size}));
  const bool rows = c.keys == DecodeKeys::kBlocksOfRows;
  return Element(from[0], rows ? "BSH" : "BNSD",
                 {block, j % c.block_size, g, d, c.dim});
}

// Keys of sequence b, from the first on to before the last; -1 where left
// padding leaves too little room for them.
std::pair<int64_t, int64_t> DecodeCall::KeysOf(int64_t b) const {
  const DecodeCase& c = asked;
  const int64_t room = ColumnsOf(b);
  const size_t own = c.lengths.size() == 1 ? 0 : static_cast<size_t>(b);
  const int64_t length = c.lengths.empty() ? room : c.lengths[own];
  if (padding == nullptr || c.lengths.empty() ||
      c.keys != DecodeKeys::kSingle) {
    return {0, length};
  }
  const int64_t first = room - std::max<int64_t>(*c.padding, 0) - length;
  if (first < 0) return {-1, -1};
  return {first, first + length};
}

// `index` 0 is the keys', 1 the values'.
double DecodeCall::Scale(int64_t index, int64_t channel) const {
  return Factor(antiquant_scale, asked.key_scales, channel,
                index * FactorsOf());
}
int64_t DecodeCall::FactorsOf() const {
  const bool one = asked.key_scales == Scales::kTensor;
  return one ? 1 : asked.kv_heads * asked.dim;
}

// scale * (x + offset)
double DecodeCall::Decoded(int64_t index, int64_t b, int64_t j, int64_t g,
                           int64_t d) const {
  const DecodeCase& c = asked;
  double x = RowElement(index == 0 ? keys : values, b, j, g, d);
  if (c.key_scales == Scales::kNone) return x;
  const int64_t channel = g * c.dim + d;
  if (c.key_offset) {
    x += Factor(antiquant_offset, c.key_scales, channel, index * FactorsOf());
  }
  return x * Scale(index, channel);
}

// The output row of head h of sequence b.
std::vector<double> DecodeCall::Attend(int64_t b, int64_t h) const {
  const DecodeCase& c = asked;
  const int64_t g = h / (c.heads / c.kv_heads);
  const auto [first, last] = KeysOf(b);
  if (first < 0) return std::vector<double>(static_cast<size_t>(c.dim));
  std::vector<double> scores;
  for (int64_t j = first; j < last; ++j) {
    double dot = 0;
    for (int64_t d = 0; d < c.dim; ++d) {
      dot += Element(query, c.layout, {b, 0, h, d, c.dim}) *
             Decoded(0, b, j, g, d);
    }
    double score = dot * static_cast<float>(c.scale);
    if (pse != nullptr && c.version >= 3) {
      score += pse->Get({c.pse_sequences == 1 ? 0 : b, h, 0, j});
    }
    const bool hidden =
        mask != nullptr && mask->Nth(b * mask->form().dims.back() + j) != 0;
    scores.push_back(hidden ? Softmax::kUnseen : score);
  }
  return Softmax(scores).Of(c.dim, [&, first = first](int64_t j, int64_t d) {
    return Decoded(1, b, first + j, g, d);
  });
}

std::vector<double> DecodeCall::Expected() const {
  const DecodeCase& c = asked;
  std::vector<double> expected(static_cast<size_t>(out->elements()));
  for (int64_t b = 0; b < c.sequences; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      std::vector<double> row = Attend(b, h);
      for (int64_t d = 0; d < c.dim; ++d) {
        const int64_t channel = h * c.dim + d;
        double& x = row[static_cast<size_t>(d)];
        if (c.out_scales != Scales::kNone) {
          x *= Factor(quant_scale2, c.out_scales, channel, 0);
          if (c.out_offset) {
            x += Factor(quant_offset2, c.out_scales, channel, 0);
          }
        }
        // With one row per sequence all layouts have the same order.
        expected[static_cast<size_t>(b * c.heads * c.dim + channel)] = x;
      }
    }
  }
  return expected;
}

}  // namespace flashacl::testing
