// SPDX-License-Identifier: Apache-2.0
// Building calls of sparse gradients, and their answers by definition.
#include "tests/testing/sparse_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/str.h"

namespace flashacl::testing {
namespace {

int64_t CeilOf(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

// [rows, heads, channels] packed, [sequences, rows, heads, channels] dense.
std::vector<int64_t> Dims(const SparseCase& c, int64_t rows, int64_t heads,
                          int64_t channels) {
  if (c.packed) return {rows, heads, channels};
  return {c.sequences, rows, heads, channels};
}

Form FormOf(const SparseCase& c, aclDataType type, std::vector<int64_t> dims) {
  Form form{.type = type, .dims = std::move(dims)};
  if (!c.spread) return form;
  switch (form.dims.size()) {
    case 1:
      return Spread(std::move(form), {0});
    case 3:
      return Spread(std::move(form), {1, 0, 2});
    default:
      return Spread(std::move(form), {2, 0, 1, 3});
  }
}

// The last axis of every tensor of rows.
int64_t Channels(const DeviceTensor& tensor) {
  return tensor.form().dims.back();
}

// `total` cut into `count` parts; where each ends.
std::vector<int64_t> RandomEnds(Random& random, int64_t count, int64_t total) {
  std::vector<int64_t> ends;
  for (int64_t n = 0; n < count; ++n) ends.push_back(random.Within(0, total));
  std::ranges::sort(ends);
  if (!random.OneIn(3)) ends.back() = total;  // else rows are left over
  return ends;
}

std::vector<int64_t> RandomCounts(Random& random, int64_t count, int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t n = 0; n < count; ++n) counts.push_back(random.Within(0, most));
  return counts;
}

void RandomLengths(Random& random, SparseCase& c) {
  c.query_lengths.clear();
  c.key_lengths.clear();
  if (c.packed) {
    c.query_lengths = RandomEnds(random, c.sequences, c.rows);
    c.key_lengths = RandomEnds(random, c.sequences, c.columns);
    return;
  }
  if (random.OneIn(3)) {
    c.query_lengths = RandomCounts(random, c.sequences, c.rows);
  }
  if (random.OneIn(3)) {
    c.key_lengths = RandomCounts(random, c.sequences, c.columns);
  }
}

}  // namespace

std::string ToString(const SparseCase& c) {
  return Str(
      "type {} {} B {} N {} S {}/{} D {}+{}/{} K {} of {} mode {} scale {} "
      "indices {} lengths {} [{}] {} [{}] merged {} spread {} consistent {}",
      static_cast<int>(c.type), c.packed ? "TND" : "BSND", c.sequences, c.heads,
      c.rows, c.columns, c.dim, c.rope_dim, c.v_dim, c.top_k, c.block, c.mode,
      c.scale, static_cast<int>(c.index_type),
      static_cast<int>(c.query_length_type), Join(c.query_lengths, ", "),
      static_cast<int>(c.key_length_type), Join(c.key_lengths, ", "), c.merged,
      c.spread, c.consistent);
}

SparseCase RandomSparseCase(Random& random) {
  static constexpr int64_t kBlocks[] = {1, 8, 16, 32, 64};
  const auto index_type = [&] {
    return random.OneIn(2) ? ACL_INT32 : ACL_INT64;
  };
  SparseCase c;
  c.type = random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  c.packed = random.OneIn(2);
  c.sequences = random.Within(1, 4);
  c.heads = int64_t{1} << random.Within(0, 4);
  if (random.OneIn(6)) c.heads = random.Within(1, 9);
  c.block = kBlocks[random.Within(0, 4)];
  c.rows = random.Within(1, 8);
  c.columns =
      random.OneIn(3) ? random.Within(1, 9) : random.Within(1, 3 * c.block + 5);
  if (random.OneIn(20)) c.columns = 0;
  if (c.packed) {
    c.rows *= c.sequences;
    c.columns *= random.Within(1, c.sequences);
  }
  c.dim = random.OneIn(2) ? random.Within(1, 24) : 16;
  c.v_dim = random.OneIn(2) ? random.Within(1, 24) : c.dim;
  c.rope_dim = random.OneIn(3) ? 0 : random.Within(1, 12);
  c.top_k = random.Within(1, CeilOf(c.columns, c.block) + 3);
  c.mode = random.OneIn(2) ? 0 : 3;
  c.scale = random.OneIn(8) ? -0.3 : 0.2;
  c.index_type = index_type();
  c.query_length_type = index_type();
  c.key_length_type = index_type();
  RandomLengths(random, c);
  c.merged = random.OneIn(4);
  if (c.merged) c.v_dim = c.dim;
  c.spread = random.OneIn(3);
  c.consistent = random.OneIn(2);
  return c;
}

SparseCall::SparseCall(const SparseCase& c, uint64_t seed)
    : OperatorFixture("aclnnSparseFlashAttentionGrad"), asked(c) {
  Random random(seed);
  query = Numbers(Dims(c, c.rows, c.heads, c.dim), random);
  key = Numbers(Dims(c, c.columns, 1, c.dim), random);
  if (!c.merged) value = Numbers(Dims(c, c.columns, 1, c.v_dim), random);
  grad_out = Numbers(Dims(c, c.rows, c.heads, c.v_dim), random);
  out = Numbers(grad_out->form().dims, random);
  const auto result = [&](const DeviceTensor* like) {
    return caller.Output(FormOf(c, c.type, like->form().dims));
  };
  grad_query = result(query);
  grad_key = result(key);
  if (!c.merged) grad_value = result(value);
  if (c.rope_dim > 0) {
    query_rope = Numbers(Dims(c, c.rows, c.heads, c.rope_dim), random);
    key_rope = Numbers(Dims(c, c.columns, 1, c.rope_dim), random);
    grad_query_rope = result(query_rope);
    grad_key_rope = result(key_rope);
  }
  const auto lengths = [&](aclDataType type, const std::vector<int64_t>& from) {
    if (from.empty()) return static_cast<DeviceTensor*>(nullptr);
    DeviceTensor* tensor =
        caller.Input(FormOf(c, type, {static_cast<int64_t>(from.size())}));
    for (size_t n = 0; n < from.size(); ++n) {
      tensor->SetNth(static_cast<int64_t>(n), static_cast<double>(from[n]));
    }
    return tensor;
  };
  query_lengths = lengths(c.query_length_type, c.query_lengths);
  key_lengths = lengths(c.key_length_type, c.key_lengths);
  MakeLists(random);
  MakeForward(random);
  const std::string_view text = c.packed ? "TND" : "BSND";
  layout_text_.assign(text.begin(), text.end());
  layout_text_.push_back('\0');
  layout = layout_text_.data();
}

DeviceTensor* SparseCall::Numbers(std::vector<int64_t> dims, Random& random) {
  DeviceTensor* tensor =
      caller.Input(FormOf(asked, asked.type, std::move(dims)));
  tensor->Fill(random, -2, 2);
  return tensor;
}

std::vector<SparseCall::Sequence> SparseCall::Sequences() const {
  const SparseCase& c = asked;
  std::vector<Sequence> sequences(static_cast<size_t>(c.sequences));
  for (size_t b = 0; b < sequences.size(); ++b) {
    Sequence& s = sequences[b];
    if (c.packed) {
      s.query = b == 0 ? 0 : c.query_lengths[b - 1];
      s.queries = c.query_lengths[b] - s.query;
      s.key = b == 0 ? 0 : c.key_lengths[b - 1];
      s.keys = c.key_lengths[b] - s.key;
      continue;
    }
    s.query = static_cast<int64_t>(b) * c.rows;
    s.queries = c.query_lengths.empty() ? c.rows : c.query_lengths[b];
    s.key = static_cast<int64_t>(b) * c.columns;
    s.keys = c.key_lengths.empty() ? c.columns : c.key_lengths[b];
  }
  return sequences;
}

// Distinct blocks in any order, all of them if they fit and sometimes fewer;
// blocks that do not exist in between, and blocks that do after the -1.
void SparseCall::MakeLists(Random& random) {
  const SparseCase& c = asked;
  indices = caller.Input(FormOf(c, c.index_type, Dims(c, c.rows, 1, c.top_k)));
  indices->FillWith(0);  // also of rows of no sequence
  for (const Sequence& s : Sequences()) {
    for (int64_t i = 0; i < s.queries; ++i) {
      std::vector<int64_t> list;
      for (int64_t u = 0; u < CeilOf(s.keys, c.block); ++u) list.push_back(u);
      if (random.OneIn(4)) list.push_back(s.keys + random.Within(0, 1 << 20));
      for (size_t n = list.size(); n > 1; --n) {
        const auto other = random.Within(0, static_cast<int64_t>(n) - 1);
        std::swap(list[n - 1], list[static_cast<size_t>(other)]);
      }
      if (!list.empty() && random.OneIn(4)) list.pop_back();
      list.push_back(random.OneIn(4) ? -random.Within(1, 99) : -1);
      for (int64_t n = 0; n < c.top_k; ++n) {
        const bool known = n < static_cast<int64_t>(list.size());
        const int64_t u = known ? list[static_cast<size_t>(n)]
                                : (random.OneIn(4) ? int64_t{0} : int64_t{-1});
        indices->SetNth((s.query + i) * c.top_k + n, static_cast<double>(u));
      }
    }
  }
}

std::vector<int64_t> SparseCall::Listed(const Sequence& s, int64_t i) const {
  const SparseCase& c = asked;
  const int64_t visible =
      c.mode == 0 ? s.keys
                  : std::clamp<int64_t>(s.keys - s.queries + i + 1, 0, s.keys);
  std::vector<int64_t> keys;
  for (int64_t n = 0; n < c.top_k; ++n) {
    const auto u =
        static_cast<int64_t>(indices->Nth((s.query + i) * c.top_k + n));
    if (u < 0) break;
    if (u >= CeilOf(visible, c.block)) continue;
    const int64_t first = u * c.block;
    const int64_t count = std::min(visible - first, c.block);
    for (int64_t j = first; j < first + count; ++j) keys.push_back(s.key + j);
  }
  return keys;
}

double SparseCall::Dot(const DeviceTensor& a, int64_t row_a,
                       const DeviceTensor& b, int64_t row_b) const {
  const int64_t channels = Channels(a);
  double sum = 0;
  for (int64_t d = 0; d < channels; ++d) {
    sum += a.Nth(row_a * channels + d) * b.Nth(row_b * channels + d);
  }
  return sum;
}

std::vector<SparseCall::Row> SparseCall::Rows() const {
  const bool rope = query_rope != nullptr && key_rope != nullptr;
  std::vector<Row> rows;
  for (const Sequence& s : Sequences()) {
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t h = 0; h < asked.heads; ++h) {
        Row row{s.query + i, h, Listed(s, i), {}};
        const int64_t at = row.row * asked.heads + h;
        for (const int64_t j : row.keys) {
          double dot = Dot(*query, at, *key, j);
          if (rope) dot += Dot(*query_rope, at, *key_rope, j);
          row.scores.push_back(static_cast<float>(asked.scale) * dot);
        }
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

// Row max, row sum and out as the forward pass leaves them, or any numbers.
void SparseCall::MakeForward(Random& random) {
  const SparseCase& c = asked;
  std::vector<int64_t> dims = {1, c.rows, c.heads};
  if (!c.packed) dims.insert(dims.begin(), c.sequences);
  row_max = caller.Input(FormOf(c, ACL_FLOAT, dims));
  row_sum = caller.Input(FormOf(c, ACL_FLOAT, dims));
  row_max->Fill(random, -1, 3);
  row_sum->Fill(random, 0.5, 4);
  const DeviceTensor& v = c.merged ? *key : *value;
  for (const Row& row : Rows()) {
    const int64_t at = row.row * c.heads + row.head;
    if (!c.consistent) {
      if (random.OneIn(10)) row_sum->SetNth(at, 0);
      continue;
    }
    double max = row.keys.empty() ? 0 : *std::ranges::max_element(row.scores);
    double sum = 0;
    for (const double score : row.scores) sum += std::exp(score - max);
    row_max->SetNth(at, max);
    row_sum->SetNth(at, sum);
    for (int64_t d = 0; d < c.v_dim; ++d) {
      double total = 0;
      for (size_t n = 0; n < row.keys.size(); ++n) {
        total += std::exp(row.scores[n] - max) / sum *
                 v.Nth(row.keys[n] * c.v_dim + d);
      }
      out->SetNth(at * c.v_dim + d, total);
    }
  }
}

void SparseCall::AddGradients(const Row& row, SparseGradients& sums) const {
  const int64_t at = row.row * asked.heads + row.head;
  const double scale = static_cast<float>(asked.scale);
  const double max = row_max->Nth(at);
  const double sum = row_sum->Nth(at);
  const double delta = Dot(*grad_out, at, *out, at);
  const DeviceTensor& v = asked.merged ? *key : *value;
  // Weights err by as much as scores do: of sums of n products, about
  // sqrt(n) / 2 roundings of fp32, and what a scale and a difference add. The
  // 1e-6 that scale is multiplied by is 16 of them.
  const int64_t rope = query_rope == nullptr ? 0 : Channels(*query_rope);
  const auto dims = static_cast<double>(Channels(*query) + rope);
  const double of_score = (std::sqrt(dims) / 2 + 2) / 16;
  double doubt = 1;
  const auto add = [&](std::vector<double>& to, int64_t to_row, double factor,
                       const DeviceTensor& from, int64_t from_row) {
    const int64_t channels = Channels(from);
    for (int64_t d = 0; d < channels; ++d) {
      const double term = factor * from.Nth(from_row * channels + d);
      to[static_cast<size_t>(to_row * channels + d)] += term;
      sums.scale = std::max(sums.scale, doubt * std::fabs(term));
    }
  };
  for (size_t n = 0; n < row.keys.size(); ++n) {
    const int64_t j = row.keys[n];
    const double p = sum == 0 ? 0 : std::exp(row.scores[n] - max) / sum;
    doubt = 1 + of_score * std::fabs(row.scores[n]);
    const double ds = p * (Dot(*grad_out, at, v, j) - delta);
    add(sums.query, at, scale * ds, *key, j);
    add(sums.key, j, scale * ds, *query, at);
    add(asked.merged ? sums.key : sums.value, j, p, *grad_out, at);
    if (query_rope == nullptr || key_rope == nullptr) continue;
    add(sums.query_rope, at, scale * ds, *key_rope, j);
    add(sums.key_rope, j, scale * ds, *query_rope, at);
  }
}

SparseGradients SparseCall::Expected() const {
  SparseGradients sums;
  const auto size = [](std::vector<double>& to, const DeviceTensor* like) {
    if (like != nullptr) to.assign(static_cast<size_t>(like->elements()), 0.0);
  };
  size(sums.query, query);
  size(sums.key, key);
  size(sums.value, value);
  size(sums.query_rope, query_rope);
  size(sums.key_rope, key_rope);
  for (const Row& row : Rows()) AddGradients(row, sums);
  return sums;
}

Parameters SparseCall::Pass() {
  Parameters p{.reals = {asked.scale},
               .integers = {asked.block, asked.mode, pre_tokens, next_tokens,
                            deterministic},
               .texts = {layout}};
  Add(p, {query, key, value, indices, grad_out, out, row_max, row_sum,
          query_lengths, key_lengths, query_rope, key_rope, grad_query,
          grad_key, grad_value, grad_query_rope, grad_key_rope});
  return p;
}

void SparseCall::ExpectAsDocumented() {
  if (!Run()) return;
  const SparseGradients expected = Expected();
  const auto expect = [&](const char* name, const DeviceTensor* tensor,
                          const std::vector<double>& values) {
    if (tensor == nullptr) return;
    SCOPED_TRACE(name);
    ExpectNear(*tensor, values, expected.scale);
  };
  expect("dQuery", grad_query, expected.query);
  expect("dKey", grad_key, expected.key);
  expect("dValue", grad_value, expected.value);
  expect("dQueryRope", grad_query_rope, expected.query_rope);
  expect("dKeyRope", grad_key_rope, expected.key_rope);
}

}  // namespace flashacl::testing
