// SPDX-License-Identifier: Apache-2.0
// Building calls of sparse attention, and their answers by definition.
#include "tests/testing/sparse_forward_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/str.h"

namespace flashacl::testing {
namespace {

int64_t CeilOf(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

std::vector<int64_t> QueryDims(const SparseForwardCase& c, int64_t heads,
                               int64_t channels) {
  if (c.packed) return {c.rows, heads, channels};
  return {c.sequences, c.rows, heads, channels};
}

// More pages than needed.
int64_t PagesOf(const SparseForwardCase& c) {
  return c.sequences * (c.columns / c.page_rows) + 2;
}

std::vector<int64_t> KeyDims(const SparseForwardCase& c, int64_t channels) {
  if (c.paged()) return {PagesOf(c), c.page_rows, 1, channels};
  if (c.packed) return {c.columns, 1, channels};
  return {c.sequences, c.columns, 1, channels};
}

Form FormOf(const SparseForwardCase& c, aclDataType type,
            std::vector<int64_t> dims) {
  Form form{.type = type, .dims = std::move(dims)};
  if (!c.spread) return form;
  switch (form.dims.size()) {
    case 1:
      return Spread(std::move(form), {0});
    case 2:
      return Spread(std::move(form), {1, 0});
    case 3:
      return Spread(std::move(form), {1, 0, 2});
    default:
      return Spread(std::move(form), {2, 0, 1, 3});
  }
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

void DrawLengths(Random& random, SparseForwardCase& c) {
  c.query_lengths.clear();
  c.key_lengths.clear();
  if (c.packed) {
    c.query_lengths = RandomEnds(random, c.sequences, c.rows);
  } else if (random.OneIn(3)) {
    c.query_lengths = RandomCounts(random, c.sequences, c.rows);
  }
  if (c.packed && !c.paged()) {
    c.key_lengths = RandomEnds(random, c.sequences, c.columns);
  } else if (c.paged() || random.OneIn(3)) {
    c.key_lengths = RandomCounts(random, c.sequences, c.columns);
  }
}

// Rows of channels lie one after the other in order of the shape.
double Dot(const DeviceTensor& a, int64_t row_a, const DeviceTensor& b,
           int64_t row_b) {
  const int64_t channels = a.form().dims.back();
  double sum = 0;
  for (int64_t d = 0; d < channels; ++d) {
    sum += a.Nth(row_a * channels + d) * b.Nth(row_b * channels + d);
  }
  return sum;
}

std::vector<char> Terminated(std::string_view text) {
  std::vector<char> all(text.begin(), text.end());
  all.push_back('\0');
  return all;
}

}  // namespace

std::string ToString(const SparseForwardCase& c) {
  return Str(
      "V{} type {} {} pages of {} B {} N {} S {}/{} D {}+{}/{} K {} of {} mode "
      "{} scale {} indices {} lengths {} [{}] [{}] merged {} statistics {} "
      "sinks {} spread {}",
      c.version, static_cast<int>(c.type), c.packed ? "TND" : "BSND",
      c.page_rows, c.sequences, c.heads, c.rows, c.columns, c.dim, c.rope_dim,
      c.v_dim, c.top_k, c.block, c.mode, c.scale,
      static_cast<int>(c.index_type), static_cast<int>(c.length_type),
      Join(c.query_lengths, ", "), Join(c.key_lengths, ", "), c.merged,
      c.statistics, c.sinks, c.spread);
}

SparseForwardCase RandomSparseForwardCase(Random& random) {
  SparseForwardCase c;
  c.version = random.OneIn(2) ? 1 : 2;
  c.type = random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  c.packed = random.OneIn(2);
  c.sequences = random.Within(1, 4);
  c.heads =
      random.OneIn(4) ? random.Within(1, 9) : int64_t{1} << random.Within(0, 4);
  c.block = random.OneIn(2) ? 1 : int64_t{1} << random.Within(1, 4);
  c.rows = random.Within(1, 8);
  c.columns =
      random.OneIn(3) ? random.Within(1, 9) : random.Within(1, 3 * c.block + 5);
  if (random.OneIn(2)) {
    c.page_rows = random.OneIn(3) ? random.Within(1, 9) : 16;
    c.columns = c.page_rows * random.Within(1, 3);
  } else if (random.OneIn(20)) {
    c.columns = 0;
  }
  if (c.packed) c.rows *= c.sequences;
  if (c.packed && !c.paged()) c.columns *= random.Within(1, c.sequences);
  c.dim = random.OneIn(2) ? random.Within(1, 24) : 16;
  c.v_dim = random.OneIn(2) ? random.Within(1, 24) : c.dim;
  c.rope_dim = random.OneIn(3) ? 0 : random.Within(1, 12);
  c.top_k = random.Within(1, CeilOf(c.columns, c.block) + 3);
  c.mode = random.OneIn(2) ? 0 : 3;
  c.scale = random.OneIn(8) ? -0.3 : 0.2;
  c.index_type = random.OneIn(3) ? ACL_INT64 : ACL_INT32;
  c.length_type = random.OneIn(3) ? ACL_INT64 : ACL_INT32;
  DrawLengths(random, c);
  c.merged = random.OneIn(4);
  if (c.merged) c.v_dim = c.dim;
  c.statistics = !c.paged() && !random.OneIn(4);
  c.sinks = c.version == 2 && !c.paged() && random.OneIn(2);
  c.spread = random.OneIn(3);
  return c;
}

SparseForwardCall::SparseForwardCall(const SparseForwardCase& c, uint64_t seed)
    : OperatorFixture("aclnnSparseFlashAttention", c.version), asked(c) {
  Random random(seed);
  query = Numbers(QueryDims(c, c.heads, c.dim), random);
  key = Numbers(KeyDims(c, c.dim), random);
  if (!c.merged) value = Numbers(KeyDims(c, c.v_dim), random);
  if (c.rope_dim > 0) {
    query_rope = Numbers(QueryDims(c, c.heads, c.rope_dim), random);
    key_rope = Numbers(KeyDims(c, c.rope_dim), random);
  }
  query_lengths = LengthsOf(c.query_lengths);
  key_lengths = LengthsOf(c.key_lengths);
  if (c.sinks) {
    sinks = caller.Input(FormOf(c, ACL_FLOAT, {c.heads}));
    sinks->Fill(random, -2, 2);
  }
  if (c.paged()) MakePages(random);
  MakeLists(random);
  MakeResults(random);
  query_text_ = Terminated(c.packed ? "TND" : "BSND");
  key_text_ = c.paged() ? Terminated("PA_BSND") : query_text_;
  query_layout = query_text_.data();
  key_layout = key_text_.data();
}

DeviceTensor* SparseForwardCall::Numbers(std::vector<int64_t> dims,
                                         Random& random) {
  DeviceTensor* tensor =
      caller.Input(FormOf(asked, asked.type, std::move(dims)));
  tensor->Fill(random, -2, 2);
  return tensor;
}

DeviceTensor* SparseForwardCall::LengthsOf(
    const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return nullptr;
  DeviceTensor* tensor = caller.Input(
      FormOf(asked, asked.length_type, {static_cast<int64_t>(lengths.size())}));
  for (size_t n = 0; n < lengths.size(); ++n) {
    tensor->SetNth(static_cast<int64_t>(n), static_cast<double>(lengths[n]));
  }
  return tensor;
}

// Pages in no order; what no sequence reaches is listed as -1 or anything.
void SparseForwardCall::MakePages(Random& random) {
  const SparseForwardCase& c = asked;
  std::vector<int64_t> pages;
  for (int64_t n = 0; n < PagesOf(c); ++n) pages.push_back(n);
  for (size_t n = pages.size(); n > 1; --n) {
    const auto other = random.Within(0, static_cast<int64_t>(n) - 1);
    std::swap(pages[n - 1], pages[static_cast<size_t>(other)]);
  }
  const int64_t each = c.columns / c.page_rows;
  block_table = caller.Input(FormOf(c, ACL_INT32, {c.sequences, each + 1}));
  for (int64_t b = 0; b < c.sequences; ++b) {
    for (int64_t n = 0; n <= each; ++n) {
      const bool reached =
          n * c.page_rows < c.key_lengths[static_cast<size_t>(b)];
      const int64_t page =
          reached ? pages[static_cast<size_t>(b * each + n)]
                  : (random.OneIn(2) ? int64_t{-1} : int64_t{1} << 30);
      block_table->Set({b, n}, static_cast<double>(page));
    }
  }
}

std::vector<SparseForwardCall::Sequence> SparseForwardCall::Sequences() const {
  const SparseForwardCase& c = asked;
  std::vector<Sequence> sequences(static_cast<size_t>(c.sequences));
  for (size_t b = 0; b < sequences.size(); ++b) {
    Sequence& s = sequences[b];
    s.number = static_cast<int64_t>(b);
    if (c.packed) {
      s.query = b == 0 ? 0 : c.query_lengths[b - 1];
      s.queries = c.query_lengths[b] - s.query;
    } else {
      s.query = s.number * c.rows;
      s.queries = c.query_lengths.empty() ? c.rows : c.query_lengths[b];
    }
    if (c.packed && !c.paged()) {
      s.key = b == 0 ? 0 : c.key_lengths[b - 1];
      s.keys = c.key_lengths[b] - s.key;
    } else {
      s.key = s.number * c.columns;
      s.keys = c.key_lengths.empty() ? c.columns : c.key_lengths[b];
    }
  }
  return sequences;
}

// Distinct blocks in any order, all of them if they fit and sometimes fewer;
// blocks that do not exist in between, and blocks that do after the -1.
void SparseForwardCall::MakeLists(Random& random) {
  const SparseForwardCase& c = asked;
  indices = caller.Input(FormOf(c, c.index_type, QueryDims(c, 1, c.top_k)));
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
      if (random.OneIn(10)) list.clear();
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

void SparseForwardCall::MakeResults(Random& random) {
  const SparseForwardCase& c = asked;
  out = caller.Output(FormOf(c, c.type, QueryDims(c, c.heads, c.v_dim)));
  std::vector<int64_t> dims = {1, c.rows, c.heads};
  if (!c.packed) dims.insert(dims.begin(), c.sequences);
  for (DeviceTensor** tensor : {&row_max, &row_sum}) {
    if (c.statistics) {
      *tensor = caller.Output(FormOf(c, ACL_FLOAT, dims));
    } else {
      *tensor = caller.Input(FormOf(c, ACL_FLOAT, dims));
      (*tensor)->Fill(random, -1, 1);
    }
  }
}

// Tensor rows of keys, in the order of the list.
std::vector<int64_t> SparseForwardCall::Listed(const Sequence& s,
                                               int64_t i) const {
  const SparseForwardCase& c = asked;
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
    for (int64_t j = first; j < first + count; ++j) {
      if (!c.paged()) {
        keys.push_back(s.key + j);
        continue;
      }
      const auto page =
          static_cast<int64_t>(block_table->Get({s.number, j / c.page_rows}));
      keys.push_back(page * c.page_rows + j % c.page_rows);
    }
  }
  return keys;
}

double SparseForwardCall::Score(int64_t row_and_head, int64_t key_row) const {
  double dot = Dot(*query, row_and_head, *key, key_row);
  if (query_rope != nullptr && key_rope != nullptr) {
    dot += Dot(*query_rope, row_and_head, *key_rope, key_row);
  }
  return static_cast<float>(asked.scale) * dot;
}

void SparseForwardCall::Attend(const Sequence& s, int64_t i, int64_t h,
                               SparseResults& results) const {
  const SparseForwardCase& c = asked;
  const int64_t at = (s.query + i) * c.heads + h;
  const std::vector<int64_t> keys = Listed(s, i);
  const bool sink = sinks != nullptr && s.keys > 0;
  if (keys.empty() && !sink) return;  // 0, 0 and 0
  double max = sink ? sinks->Nth(h) : -std::numeric_limits<double>::infinity();
  std::vector<double> scores;
  for (const int64_t row : keys) scores.push_back(Score(at, row));
  for (const double score : scores) max = std::max(max, score);
  double sum = sink ? std::exp(sinks->Nth(h) - max) : 0;
  for (double& score : scores) sum += score = std::exp(score - max);
  const DeviceTensor& v = c.merged ? *key : *value;
  for (size_t n = 0; n < keys.size(); ++n) {
    for (int64_t d = 0; d < c.v_dim; ++d) {
      results.out[static_cast<size_t>(at * c.v_dim + d)] +=
          scores[n] / sum * v.Nth(keys[n] * c.v_dim + d);
    }
  }
  results.row_max[static_cast<size_t>(at)] = max;
  results.row_sum[static_cast<size_t>(at)] = sum;
}

SparseResults SparseForwardCall::Expected() const {
  SparseResults results;
  results.out.assign(static_cast<size_t>(out->elements()), 0.0);
  const int64_t planes = asked.packed ? 1 : asked.sequences;
  const auto rows = static_cast<size_t>(planes * asked.rows * asked.heads);
  results.row_max.assign(rows, 0.0);
  results.row_sum.assign(rows, 0.0);
  for (const Sequence& s : Sequences()) {
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t h = 0; h < asked.heads; ++h) Attend(s, i, h, results);
    }
  }
  return results;
}

Parameters SparseForwardCall::Pass() {
  Parameters p{.reals = {asked.scale},
               .integers = {asked.block, asked.mode, pre_tokens, next_tokens,
                            attention_mode, asked.statistics},
               .texts = {query_layout, key_layout}};
  Add(p, {query, key, value, indices, block_table, query_lengths, key_lengths,
          query_rope, key_rope});
  if (asked.version > 1) Add(p, {sinks});
  Add(p, {out, row_max, row_sum});
  return p;
}

void SparseForwardCall::ExpectAsDocumented() {
  if (!Run()) return;
  const SparseResults expected = Expected();
  // Weights err by as much as scores do, which is some units of fp32: 2^-22 is
  // a quarter of the 1e-6 that this is multiplied by. Sums err by as much.
  double scale = 4.0, most = 1.0;
  for (const double max : expected.row_max) {
    scale = std::max(scale, 4.0 + std::fabs(max));
  }
  ExpectNear(*out, expected.out, scale);
  if (!asked.statistics) return;
  SCOPED_TRACE("statistics");
  for (const double sum : expected.row_sum) most = std::max(most, sum);
  ExpectNear(*row_max, expected.row_max, scale);
  ExpectNear(*row_sum, expected.row_sum, scale * most);
}

}  // namespace flashacl::testing
