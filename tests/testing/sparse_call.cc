// SPDX-License-Identifier: Apache-2.0
// Building calls of sparse attention, and the definition of a row.
#include "tests/testing/sparse_call.h"

#include <algorithm>
#include <utility>

#include "base/str.h"

namespace flashacl::testing {
namespace {

int64_t CeilOf(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

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

// What both directions have.
SparseCase RandomCase(Random& random) {
  const auto index_type = [&] {
    return random.OneIn(2) ? ACL_INT32 : ACL_INT64;
  };
  SparseCase c;
  c.type = random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  c.packed = random.OneIn(2);
  c.sequences = random.Within(1, 4);
  c.heads =
      random.OneIn(4) ? random.Within(1, 9) : int64_t{1} << random.Within(0, 4);
  c.block = random.OneIn(3) ? 1 : int64_t{1} << random.Within(1, 6);
  c.rows = random.Within(1, 8);
  c.columns =
      random.OneIn(3) ? random.Within(1, 9) : random.Within(1, 3 * c.block + 5);
  if (random.OneIn(20)) c.columns = 0;
  c.dim = random.OneIn(2) ? random.Within(1, 24) : 16;
  c.v_dim = random.OneIn(2) ? random.Within(1, 24) : c.dim;
  c.rope_dim = random.OneIn(3) ? 0 : random.Within(1, 12);
  c.mode = random.OneIn(2) ? 0 : 3;
  c.scale = random.OneIn(8) ? -0.3 : 0.2;
  c.index_type = index_type();
  c.query_length_type = index_type();
  c.key_length_type = index_type();
  c.merged = random.OneIn(4);
  if (c.merged) c.v_dim = c.dim;
  c.spread = random.OneIn(3);
  return c;
}

// What follows from sizes and pages.
void DrawLengths(Random& random, SparseCase& c) {
  if (c.packed) c.rows *= c.sequences;
  if (c.packed && !c.paged()) c.columns *= random.Within(1, c.sequences);
  c.top_k = random.Within(1, CeilOf(c.columns, c.block) + 3);
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

}  // namespace

std::string ToString(const SparseCase& c) {
  return Str(
      "V{} type {} {} pages of {} B {} N {} S {}/{} D {}+{}/{} K {} of {} mode "
      "{} scale {} indices {} lengths {} [{}] {} [{}] merged {} "
      "statistics {} sinks {} spread {} consistent {}",
      c.version, static_cast<int>(c.type), c.packed ? "TND" : "BSND",
      c.page_rows, c.sequences, c.heads, c.rows, c.columns, c.dim, c.rope_dim,
      c.v_dim, c.top_k, c.block, c.mode, c.scale,
      static_cast<int>(c.index_type), static_cast<int>(c.query_length_type),
      Join(c.query_lengths, ", "), static_cast<int>(c.key_length_type),
      Join(c.key_lengths, ", "), c.merged, c.statistics, c.sinks, c.spread,
      c.consistent);
}

SparseCase RandomSparseForwardCase(Random& random) {
  SparseCase c = RandomCase(random);
  c.version = random.OneIn(2) ? 1 : 2;
  if (random.OneIn(2)) {
    c.page_rows = random.OneIn(3) ? random.Within(1, 9) : 16;
    c.columns = c.page_rows * random.Within(1, 3);
  }
  DrawLengths(random, c);
  c.statistics = !c.paged() && !random.OneIn(4);
  c.sinks = c.version == 2 && !c.paged() && random.OneIn(2);
  return c;
}

SparseCase RandomSparseBackwardCase(Random& random) {
  SparseCase c = RandomCase(random);
  DrawLengths(random, c);
  c.consistent = random.OneIn(2);
  return c;
}

double Dot(const DeviceTensor& a, int64_t row_a, const DeviceTensor& b,
           int64_t row_b) {
  const int64_t channels = a.form().dims.back();
  double sum = 0;
  for (int64_t d = 0; d < channels; ++d) {
    sum += a.Nth(row_a * channels + d) * b.Nth(row_b * channels + d);
  }
  return sum;
}

SparseFixture::SparseFixture(std::string_view name, int version,
                             const SparseCase& c)
    : OperatorFixture(name, version), asked(c) {}

Form SparseFixture::FormOf(aclDataType type, std::vector<int64_t> dims) const {
  return MaybeSpread(asked.spread, type, std::move(dims));
}

std::vector<int64_t> SparseFixture::QueryDims(int64_t heads,
                                              int64_t channels) const {
  if (asked.packed) return {asked.rows, heads, channels};
  return {asked.sequences, asked.rows, heads, channels};
}

std::vector<int64_t> SparseFixture::KeyDims(int64_t channels) const {
  if (asked.paged()) return {Pages(), asked.page_rows, 1, channels};
  if (asked.packed) return {asked.columns, 1, channels};
  return {asked.sequences, asked.columns, 1, channels};
}

std::vector<int64_t> SparseFixture::StatisticDims() const {
  if (asked.packed) return {1, asked.rows, asked.heads};
  return {asked.sequences, 1, asked.rows, asked.heads};
}

// More than needed.
int64_t SparseFixture::Pages() const {
  return asked.sequences * (asked.columns / asked.page_rows) + 2;
}

DeviceTensor* SparseFixture::Numbers(std::vector<int64_t> dims,
                                     Random& random) {
  DeviceTensor* tensor = caller.Input(FormOf(asked.type, std::move(dims)));
  tensor->Fill(random, -2, 2);
  return tensor;
}

char* SparseFixture::Text(std::string_view text) {
  texts_.emplace_back(text.begin(), text.end()).push_back('\0');
  return texts_.back().data();
}

DeviceTensor* SparseFixture::Lengths(aclDataType type,
                                     const std::vector<int64_t>& from) {
  if (from.empty()) return nullptr;
  DeviceTensor* tensor =
      caller.Input(FormOf(type, {static_cast<int64_t>(from.size())}));
  for (size_t n = 0; n < from.size(); ++n) {
    tensor->SetNth(static_cast<int64_t>(n), static_cast<double>(from[n]));
  }
  return tensor;
}

void SparseFixture::MakeInputs(Random& random) {
  const SparseCase& c = asked;
  query = Numbers(QueryDims(c.heads, c.dim), random);
  key = Numbers(KeyDims(c.dim), random);
  if (!c.merged) value = Numbers(KeyDims(c.v_dim), random);
  if (c.rope_dim > 0) {
    query_rope = Numbers(QueryDims(c.heads, c.rope_dim), random);
    key_rope = Numbers(KeyDims(c.rope_dim), random);
  }
  query_lengths = Lengths(c.query_length_type, c.query_lengths);
  key_lengths = Lengths(c.key_length_type, c.key_lengths);
  if (c.paged()) MakePages(random);
  MakeLists(random);
}

// Pages in no order; what no sequence reaches is listed as -1 or anything.
void SparseFixture::MakePages(Random& random) {
  const SparseCase& c = asked;
  std::vector<int64_t> pages;
  for (int64_t n = 0; n < Pages(); ++n) pages.push_back(n);
  for (size_t n = pages.size(); n > 1; --n) {
    const auto other = random.Within(0, static_cast<int64_t>(n) - 1);
    std::swap(pages[n - 1], pages[static_cast<size_t>(other)]);
  }
  const int64_t each = c.columns / c.page_rows;
  block_table = caller.Input(FormOf(ACL_INT32, {c.sequences, each + 1}));
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

std::vector<SparseFixture::Sequence> SparseFixture::Sequences() const {
  const SparseCase& c = asked;
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
void SparseFixture::MakeLists(Random& random) {
  const SparseCase& c = asked;
  indices = caller.Input(FormOf(c.index_type, QueryDims(1, c.top_k)));
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

// Tensor rows of keys, in the order of the list.
std::vector<int64_t> SparseFixture::Listed(const Sequence& s, int64_t i) const {
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

std::vector<SparseFixture::Row> SparseFixture::Rows() const {
  const bool rope = query_rope != nullptr && key_rope != nullptr;
  std::vector<Row> rows;
  for (const Sequence& s : Sequences()) {
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t h = 0; h < asked.heads; ++h) {
        Row row{s.query + i, h, s.keys, Listed(s, i), {}};
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

SparseFixture::Answer SparseFixture::Attend(const Row& row, double sink) const {
  const Softmax softmax(row.scores, sink);
  return {.max = softmax.sum == 0 ? 0 : softmax.max,
          .sum = softmax.sum,
          .out = softmax.Of(asked.v_dim, [&](int64_t n, int64_t d) {
            return ValueRows().Nth(
                row.keys[static_cast<size_t>(n)] * asked.v_dim + d);
          })};
}

}  // namespace flashacl::testing
