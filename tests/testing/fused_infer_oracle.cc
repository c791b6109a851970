// SPDX-License-Identifier: Apache-2.0
// What the document of aclnnFusedInferAttentionScore says the answer is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/testing/fused_infer_call.h"
#include "tests/testing/inference_layout.h"
#include "tests/testing/rounding.h"
#include "tests/testing/softmax.h"

namespace flashacl::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// How far a weight exp(t) that an online softmax made may be from it, in shares
// of it: its own exp, and one to rescale it for each of a few blocks of keys.
double WeightError(double t, size_t keys) {
  const auto blocks = 2.0 + static_cast<double>(keys) / 16;
  return blocks * ExpError(0) + 2 * (ExpError(t) - ExpError(0));
}

// Of weights that meet bytes: where queries have 16 bits, no rope and channels
// in multiples of 16, they may become integers of 24 bits, times a power of two
// that is the row's and step's (docs/notes/0047). Scales of rows go into them
// first, of which the greatest is four times the least (MakeKeyScales). With
// high performance they, and queries, may be integers of 16 bits.
bool MayMeetBytes(const FusedInferCase& c) {
  const bool bytes = c.scales != FusedScales::kNone && c.bits == 8 && !c.int8;
  return bytes && c.type != ACL_FLOAT && c.rope_dim == 0 && c.dim % 16 == 0 &&
         c.v_dim % 16 == 0;
}

double WeightDigit(const FusedInferCase& c, bool fast,
                   const std::vector<double>& weights) {
  if (!MayMeetBytes(c)) return 0;
  const double scales = c.value_mode == 0 ? 1 : 4;
  return scales * (fast ? kHalfUnit : 0x1p-24) *
         *std::max_element(weights.begin(), weights.end());
}

// One rounding to the result's type, at the most.
double RoundingOf(aclDataType type, double value) {
  if (type == ACL_BF16) return kBf16Roundoff * std::fabs(value);
  if (type == ACL_FLOAT16) return 0x1p-11 * std::fabs(value) + 0x1p-25;
  return kRoundoff * std::fabs(value);
}

// Expects each element where the numbers say it is.
void Judge(const char* name, const DeviceTensor& tensor,
           const std::vector<Near>& expected) {
  ASSERT_EQ(static_cast<size_t>(tensor.elements()), expected.size()) << name;
  int reported = 0;
  for (size_t n = 0; n < expected.size() && reported < 5; ++n) {
    const double got = tensor.Nth(static_cast<int64_t>(n));
    const Near& want = expected[n];
    if (got == want.value || std::fabs(got - want.value) <= want.slack) {
      continue;
    }
    ++reported;
    ADD_FAILURE() << name << " element " << n << " is " << got << ", expected "
                  << want.value << " within " << want.slack;
  }
}

}  // namespace

void FusedInferCall::ExpectAsDocumented() {
  if (!Run()) return;
  const Results expected = Expected();
  Judge("attentionOut", *out, expected.out);
  if (asked.lse) Judge("softmaxLse", *lse, expected.lse);
}

int64_t FusedInferCall::PageOf(int64_t b, int64_t t) const {
  const auto page =
      static_cast<int64_t>(block_table->Get({b, t / asked.block_size}));
  return page < keys[0]->form().dims[0] ? page : -1;
}

// Channel c of head g of key t; t counts from the start of the sequence's room.
FusedInferCall::Spot FusedInferCall::SpotOf(Side side, int64_t b, int64_t t,
                                            int64_t g, int64_t c) const {
  const FusedInferCase& of = asked;
  const bool words = KeyType(side) == ACL_INT32;
  const int64_t width = WidthOf(side) / (words ? 8 : 1);
  const int64_t nibble = words ? c % 8 : -1;
  if (words) c /= 8;
  const bool listed = of.keys == FusedKeys::kList && side != kRope;
  const size_t member = listed ? static_cast<size_t>(b) : 0;
  DeviceTensor* tensor = side == kKey     ? keys[member]
                         : side == kValue ? values[member]
                                          : key_rope;
  const std::vector<int64_t>& dims = tensor->form().dims;
  if (!of.paged()) {
    const At at{listed || of.packed() ? 0 : b, t, g, c, width};
    return {tensor, NumberOf(of.in(), dims, at), nibble};
  }
  const int64_t page = PageOf(b, t);
  if (page < 0) return {};
  const int64_t r = t % of.block_size;
  if (of.keys != FusedKeys::kPagesOfChannels) {
    const bool rows = of.keys == FusedKeys::kPagesOfRows;
    const At at{page, r, g, c, width};
    return {tensor, NumberOf(rows ? "BSH" : "BNSD", dims, at), nibble};
  }
  const int64_t unit = dims[4];
  return {tensor,
          (((page * dims[1] + g) * dims[2] + c / unit) * dims[3] + r) * unit +
              c % unit,
          nibble};
}

FusedInferCall::Spot FusedInferCall::PrefixSpot(Side side, int64_t u, int64_t g,
                                                int64_t c) const {
  const bool words = KeyType(side) == ACL_INT32;
  const int64_t width = WidthOf(side) / (words ? 8 : 1);
  DeviceTensor* tensor = side == kKey ? key_prefix : value_prefix;
  const At at{0, u, g, words ? c / 8 : c, width};
  return {tensor, NumberOf(asked.in(), tensor->form().dims, at),
          words ? c % 8 : -1};
}

double FusedInferCall::NumberAt(const Spot& spot) {
  const double x = spot.tensor->Nth(spot.n);
  if (spot.nibble < 0) return x;
  const auto word = static_cast<uint32_t>(static_cast<int64_t>(x));
  const auto four = static_cast<int64_t>(word >> (4 * spot.nibble) & 15);
  return static_cast<double>(four < 8 ? four : four - 16);
}

// Where the scale of channel c of head g of key t is, t < 0 in the prefix.
int64_t FusedInferCall::ScaleSpot(const DeviceTensor& tensor, int64_t mode,
                                  int64_t b, int64_t t, int64_t g,
                                  int64_t c) const {
  const FusedInferCase& of = asked;
  const int64_t last = tensor.form().dims.back();
  switch (mode) {
    case 0:
      return g * of.dim + c;
    case 1:
      return b * last + t;
    case 2:
      return g;
    case 3:
      return (b * of.kv_heads + g) * last + t;
    case 4:
      return PageOf(b, t) * last + t % of.block_size;
    default:
      return (PageOf(b, t) * of.kv_heads + g) * last + t % of.block_size;
  }
}

double FusedInferCall::Factor(Side side, bool offset, int64_t b, int64_t t,
                              int64_t g, int64_t c) const {
  const FusedInferCase& of = asked;
  const bool combined = of.scales == FusedScales::kCombined;
  const DeviceTensor* tensor = combined       ? antiquant_scale
                               : side == kKey ? key_scale
                                              : value_scale;
  if (offset) {
    tensor = combined       ? antiquant_offset
             : side == kKey ? key_offset
                            : value_offset;
  }
  if (tensor == nullptr) return 0;
  const int64_t mode = side == kKey || combined ? of.key_mode : of.value_mode;
  const int64_t half = combined && side == kValue ? tensor->elements() / 2 : 0;
  const bool one = mode == 0 && tensor->elements() == (combined ? 2 : 1);
  return tensor->Nth(half + (one ? 0 : ScaleSpot(*tensor, mode, b, t, g, c)));
}

// NaN where no key is that a scale of rows would be for.
void FusedInferCall::BlankUnused(DeviceTensor* tensor, int64_t mode,
                                 int64_t parts) {
  if (mode == 0 || mode == 2 || tensor == nullptr) return;
  const FusedInferCase& of = asked;
  const int64_t half = tensor->elements() / parts;
  std::vector<bool> used(static_cast<size_t>(half));
  for (int64_t b = 0; b < of.sequences; ++b) {
    const auto extent = of.ExtentOf(b);
    if (!extent.fits) continue;
    for (int64_t n = 0; n < extent.columns * of.kv_heads; ++n) {
      const int64_t t = extent.column + n / of.kv_heads;
      if (of.paged() && PageOf(b, t) < 0) continue;
      used[static_cast<size_t>(
          ScaleSpot(*tensor, mode, b, t, n % of.kv_heads, 0))] = true;
    }
  }
  for (int64_t n = 0; n < tensor->elements(); ++n) {
    if (used[static_cast<size_t>(n % half)]) continue;
    tensor->SetNth(n, std::numeric_limits<double>::quiet_NaN());
  }
}

// Of head g: the prefix, then the sequence's own.
FusedInferCall::Rows FusedInferCall::RowsOf(Side side, int64_t b,
                                            int64_t g) const {
  const FusedInferCase& c = asked;
  const auto extent = c.ExtentOf(b);
  const int64_t prefix = c.prefix > 0 ? c.seen_prefix() : 0;
  const int64_t own = WidthOf(side);
  const int64_t rope = side == kKey ? c.rope_dim : 0;
  Rows rows{
      .width = own + rope, .x = {}, .size = {}, .scale = {}, .missing = {}};
  for (int64_t u = 0; u < prefix + extent.columns; ++u) {
    const int64_t t = extent.column + u - prefix;
    const bool missing = u >= prefix && c.paged() && PageOf(b, t) < 0;
    rows.missing.push_back(missing);
    for (int64_t d = 0; d < rows.width; ++d) {
      if (missing) {
        rows.x.push_back(0);
        rows.size.push_back(0);
        rows.scale.push_back(0);
        continue;
      }
      const double x = d >= own     ? NumberAt(SpotOf(kRope, b, t, g, d - own))
                       : u < prefix ? NumberAt(PrefixSpot(side, u, g, d))
                                    : NumberAt(SpotOf(side, b, t, g, d));
      double factor = 1;
      double offset = 0;
      if (c.scales != FusedScales::kNone && d < own) {
        const int64_t at = u < prefix ? -1 : t;
        factor = Factor(side, false, b, at, g, d);
        offset = Factor(side, true, b, at, g, d);
      }
      if (c.latent && d < own) {
        factor = (side == kKey ? key_scale : value_scale)->Nth(0);
      }
      rows.x.push_back(factor * (x + offset));
      rows.scale.push_back(std::fabs(factor));
      rows.size.push_back(std::fabs(factor) *
                          (std::fabs(x) + std::fabs(offset)));
    }
  }
  return rows;
}

bool FusedInferCall::MaskHides(int64_t b, const FusedInferCase::Extent& extent,
                               int64_t i, int64_t u) const {
  const FusedInferCase& c = asked;
  const std::vector<int64_t>& dims = mask->form().dims;
  const int64_t rows = dims.size() == 2 ? dims[0] : dims[dims.size() - 2];
  // With left padding full masks count rows and keys where they stand.
  const int64_t row = c.packed() ? i : extent.row + i;
  const int64_t column = c.packed() ? u : extent.column + u;
  if (dims.size() == 2) {
    return mask->Nth((c.rows == 1 ? b : row) * dims[1] + column) != 0;
  }
  const int64_t plane = dims[0] == 1 ? 0 : b;
  return mask->Nth((plane * rows + row) * dims.back() + column) != 0;
}

// Row i of the sequence and column u, both from its first on.
bool FusedInferCall::Sees(int64_t b, const FusedInferCase::Extent& extent,
                          int64_t i, int64_t u) const {
  const FusedInferCase& c = asked;
  const int64_t prefix = c.prefix > 0 ? c.seen_prefix() : 0;
  const int64_t shift = prefix + extent.columns - extent.rows;
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const int64_t pre = std::clamp(pre_tokens, -kMax, kMax);
  const int64_t next = std::clamp(next_tokens, -kMax, kMax);
  if (mask == nullptr) return true;
  if (c.decode()) {
    const bool square =
        (sparse_mode == 3 || sparse_mode == 4) && c.mask == FusedMask::kSquare;
    return square || !MaskHides(b, extent, i, u);
  }
  switch (sparse_mode) {
    case 1:
      return !MaskHides(b, extent, i, u);
    case 2:
      return u <= i;
    case 3:
      return u <= i + shift;
    case 4:
      return i + shift - pre <= u && u <= i + shift + next;
    case 9: {
      if (u < shift) return true;
      int64_t first = b * c.rows * c.rows;
      int64_t stride = c.rows;
      if (c.packed()) {
        first = 0;
        for (int64_t n = 0; n < b; ++n) {
          const int64_t length = c.lengths[static_cast<size_t>(n)];
          first += length * length;
        }
        stride = extent.rows;
      }
      return mask->Nth(first + i * stride + u - shift) == 0;
    }
    default:
      break;
  }
  if (MaskHides(b, extent, i, u)) return false;
  const bool padded = (query_padding != nullptr && lengths != nullptr) ||
                      (kv_padding != nullptr && kv_lengths != nullptr);
  return padded || (i - pre <= u && u <= i + next);
}

// Where the scale of that row and head is: in the order of query's axes but its
// channels.
int64_t FusedInferCall::QueryScaleSpot(int64_t b, int64_t row,
                                       int64_t h) const {
  const FusedInferCase& c = asked;
  if (c.in() == "BSH") return (b * c.rows + row) * c.heads + h;
  const int64_t sequence = c.packed() ? 0 : b;
  return NumberOf(c.in(), query->form().dims, {sequence, row, h, 0, c.dim}) /
         c.dim;
}

std::vector<double> FusedInferCall::QueryRow(int64_t b, int64_t row,
                                             int64_t h) const {
  const FusedInferCase& c = asked;
  const int64_t sequence = c.packed() ? 0 : b;
  std::vector<double> q;
  for (int64_t d = 0; d < c.dim; ++d) {
    q.push_back(Element(query, c.in(), {sequence, row, h, d, c.dim}));
    if (query_scale != nullptr) {
      q.back() *= query_scale->Nth(QueryScaleSpot(b, row, h));
    }
  }
  for (int64_t d = 0; d < c.rope_dim; ++d) {
    q.push_back(Element(query_rope, c.in(), {sequence, row, h, d, c.rope_dim}));
  }
  return q;
}

Near FusedInferCall::Score(int64_t b, const FusedInferCase::Extent& extent,
                           int64_t h, int64_t i, int64_t u,
                           const std::vector<double>& q,
                           const Rows& key) const {
  const FusedInferCase& c = asked;
  double dot = 0;
  double size = 0;
  double greatest = 0;  // of the query, with scales
  double bytes = 0;     // the sum of the key's magnitudes
  for (size_t d = 0; d < q.size(); ++d) {
    const size_t n = static_cast<size_t>(u) * q.size() + d;
    dot += q[d] * key.x[n];
    size += std::fabs(q[d]) * key.size[n];
    greatest = std::max(greatest, std::fabs(q[d]) * key.scale[n]);
    if (key.scale[n] != 0) bytes += key.size[n] / key.scale[n];
  }
  const bool integers = MayMeetBytes(c) && inner_precise % 2 == 1;
  const double factor =
      static_cast<float>(scale) * (c.int8 ? deq_scale1->Nth(0) : 1);
  double bias = 0;
  if (pse != nullptr) {
    bias = pse->Get({c.pse_sequences == 1 ? 0 : b, h,
                     c.packed() ? i : extent.row + i,
                     c.packed() ? u : extent.column + u});
  }
  return {
      factor * dot + bias,
      SumError(key.width + 6, std::fabs(factor) * size) +
          (integers ? kHalfUnit * std::fabs(factor) * greatest * bytes : 0) +
          6 * kRoundoff * (std::fabs(factor * dot) + std::fabs(bias))};
}

// What values are multiplied with, of a weight that errs by `error` of itself.
Near FusedInferCall::Weight(double weight, double error) const {
  if (!asked.int8) {
    const bool fast = asked.type == ACL_BF16 && inner_precise % 2 == 1;
    return {weight, weight * (error + (fast ? kBf16Roundoff : 0))};
  }
  const double exact = weight * quant_scale1->Nth(0);
  const double byte = std::min(std::rint(exact), 127.0);
  // Near a tie of two bytes, either.
  const double tie = std::fabs(exact - std::floor(exact) - 0.5);
  const bool either = tie <= exact * (error + 2 * kRoundoff);
  const double factor = deq_scale2->Nth(0);
  return {byte * factor, either ? factor : 0};
}

FusedInferCall::Row FusedInferCall::Attend(int64_t b,
                                           const FusedInferCase::Extent& extent,
                                           int64_t h, int64_t i,
                                           const Rows& key,
                                           const Rows& value) const {
  const FusedInferCase& c = asked;
  const std::vector<double> q = QueryRow(b, extent.row + i, h);
  const size_t columns = key.missing.size();
  std::vector<double> scores;
  std::vector<double> errors;  // of weights, in shares of them
  for (size_t u = 0; u < columns; ++u) {
    const auto column = static_cast<int64_t>(u);
    scores.push_back(Softmax::kUnseen);
    errors.push_back(0);
    if (key.missing[u] || !Sees(b, extent, i, column)) continue;
    const Near score = Score(b, extent, h, i, column, q, key);
    scores.back() = score.value;
    errors.back() = score.slack;
  }
  const double sink_score = sink == nullptr ? Softmax::kUnseen : sink->Nth(h);
  const double top = Softmax(scores).max;
  Row row;
  row.seen = top != Softmax::kUnseen;
  row.out.resize(static_cast<size_t>(c.v_dim));
  if (!row.seen) return row;
  Softmax softmax(scores, sink_score);
  double of_sum = SumError(static_cast<int64_t>(columns), 1);
  for (size_t u = 0; u < columns; ++u) {
    if (scores[u] == Softmax::kUnseen) continue;
    errors[u] += WeightError(scores[u] - softmax.max, columns);
    of_sum += softmax.weights[u] * errors[u] / softmax.sum;
  }
  if (sink != nullptr) of_sum += WeightError(sink_score - softmax.max, columns);
  const double of_weight =
      WeightDigit(c, inner_precise % 2 == 1, softmax.weights);
  for (size_t d = 0; d < row.out.size(); ++d) {
    double x = 0;
    double size = 0;
    double error = 0;
    for (size_t u = 0; u < columns; ++u) {
      if (softmax.weights[u] == 0) continue;
      const Near weight = Weight(softmax.weights[u], errors[u]);
      const size_t n = u * row.out.size() + d;
      x += weight.value / softmax.sum * value.x[n];
      size += weight.value / softmax.sum * value.size[n];
      error += (weight.slack + of_weight) / softmax.sum * value.size[n];
    }
    row.out[d] = {x, error + std::fabs(x) * of_sum +
                         SumError(static_cast<int64_t>(columns) + 6, size)};
  }
  row.lse = {std::log(softmax.sum) + softmax.max, 0};
  row.lse.slack =
      of_sum +
      4 * kRoundoff * (std::fabs(row.lse.value) + std::fabs(softmax.max) + 1);
  return row;
}

// The byte before rounding, which either neighbour of a near tie may be.
Near FusedInferCall::Quantised(const Near& x, int64_t channel) const {
  const int64_t n = quant_scale2->elements() == 1 ? 0 : channel;
  const double factor = quant_scale2->Nth(n);
  const double offset = quant_offset2 == nullptr ? 0 : quant_offset2->Nth(n);
  const double exact = x.value * factor + offset;
  const double off =
      x.slack * std::fabs(factor) +
      2 * kRoundoff * (std::fabs(x.value * factor) + std::fabs(offset));
  const auto byte = [](double number) {
    return std::clamp(std::rint(number), -128.0, 127.0);
  };
  const double low = byte(exact - off);
  const double high = byte(exact + off);
  return {(low + high) / 2, (high - low) / 2};
}

// Rows after a sequence's end, those of sequences without keys and those that
// see none are zeros. As bytes, what a mask hides, what decode lacks and what
// left padding leaves no room for is what the offset makes of 0; the others are
// the byte 0.
FusedInferCall::Results FusedInferCall::Expected() const {
  const FusedInferCase& c = asked;
  Results results{
      .out = std::vector<Near>(static_cast<size_t>(out->elements())),
      .lse = std::vector<Near>(static_cast<size_t>(lse->elements()),
                               {kInfinity, 0})};
  for (int64_t b = 0; b < c.sequences; ++b) {
    const auto extent = c.ExtentOf(b);
    // What left padding leaves too little room for sees no key, but is there.
    const bool misfit = extent.row >= 0 && !extent.fits;
    const bool keyless = !extent.fits || extent.columns + c.seen_prefix() == 0;
    const bool bytes = c.out_scales > 0 && (c.decode() || misfit);
    if (keyless && !bytes) continue;
    const int64_t group = c.heads / c.kv_heads;
    for (int64_t h = 0; h < c.heads; ++h) {
      const Rows key = keyless ? Rows() : RowsOf(kKey, b, h / group);
      const Rows value = keyless ? Rows() : RowsOf(kValue, b, h / group);
      for (int64_t i = 0; i < extent.rows; ++i) {
        Row row;
        row.out.resize(static_cast<size_t>(c.v_dim));
        if (!keyless) row = Attend(b, extent, h, i, key, value);
        const int64_t sequence = c.packed() ? 0 : b;
        const int64_t at = std::max<int64_t>(extent.row, 0) + i;
        for (int64_t d = 0; d < c.v_dim; ++d) {
          Near x = row.out[static_cast<size_t>(d)];
          if (c.out_scales > 0) {
            x = Quantised(x, h * c.v_dim + d);
          } else {
            x.slack += RoundingOf(c.type, std::fabs(x.value) + x.slack);
            if (!row.seen) x = {};
          }
          results.out[static_cast<size_t>(NumberOf(
              c.out(), out->form().dims, {sequence, at, h, d, c.v_dim}))] = x;
        }
        const int64_t n =
            c.packed() ? at * c.heads + h : (b * c.heads + h) * c.rows + at;
        if (row.seen) results.lse[static_cast<size_t>(n)] = row.lse;
      }
    }
  }
  return results;
}

}  // namespace flashacl::testing
