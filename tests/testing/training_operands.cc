// SPDX-License-Identifier: Apache-2.0
// Operands, scores and forward rows by the documents' formulas.
#include "tests/testing/training_operands.h"

#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/testing/softmax.h"

namespace flashacl::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kStored = 1024;  // rows of a compressed pse

int64_t Most(const std::vector<int64_t>& lengths) {
  return *std::max_element(lengths.begin(), lengths.end());
}

int64_t Scores(const TrainingSizes& s) {
  int64_t scores = 0;
  for (size_t b = 0; b < s.rows.size(); ++b) scores += s.rows[b] * s.columns[b];
  return scores;
}

void FillMask(const TrainingCase& c, DeviceTensor* mask, Random& random) {
  if (mask == nullptr || c.mask == MaskForm::kCompressed) return;
  const int64_t hidden_in = random.Within(0, 4);  // 0: all, else one in
  for (int64_t n = 0; n < mask->elements(); ++n) {
    const bool hidden = hidden_in == 0 || random.OneIn(hidden_in + 1);
    const double byte = c.mask_type == ACL_UINT8
                            ? static_cast<double>(random.Within(1, 255))
                            : 1.0;
    mask->SetNth(n, hidden ? byte : 0);
  }
}

void FillPse(const TrainingCase& c, DeviceTensor* pse, Random& random) {
  if (pse == nullptr) return;
  pse->Fill(random, -1, 1);
  if (!Compressed(c)) return;
  // Only constant diagonals mean anything.
  const int64_t missing = Most(c.sizes.columns) - kStored;
  const auto& dims = pse->form().dims;
  for (int64_t plane = 0; plane < dims[0] * dims[1]; ++plane) {
    for (int64_t r = 0; r < kStored; ++r) {
      for (int64_t k = 0; k < dims[3]; ++k) {
        const double delta = static_cast<double>(r + missing - k);
        pse->SetNth((plane * kStored + r) * dims[3] + k,
                    std::sin(delta + static_cast<double>(plane)));
      }
    }
  }
}

// How many rows come before this one in the tensor's shape.
int64_t RowAt(const TrainingSizes& s, const std::vector<int64_t>& lengths,
              size_t b, int64_t row) {
  if (s.layout == "SBH") return row * s.count() + static_cast<int64_t>(b);
  return Operands::Before(lengths, b) + row;
}

}  // namespace

int64_t Sum(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

bool Compressed(const TrainingCase& c) {
  return c.pse == PseForm::kCompressed || c.pse == PseForm::kCompressedEach;
}

Form MaybeSpread(const TrainingCase& c, Form form) {
  if (!c.spread) return form;
  switch (form.dims.size()) {
    case 2:
      return Spread(std::move(form), {1, 0});
    case 3:
      return Spread(std::move(form), {1, 0, 2});
    default:
      return Spread(std::move(form), {3, 0, 2, 1});
  }
}

Form MaybeSpaced(const TrainingCase& c, Form form) {
  if (!c.spread) return form;
  int64_t stride = 2;
  form.strides.assign(form.dims.size(), 0);
  for (size_t axis = form.dims.size(); axis-- > 0;) {
    form.strides[axis] = stride;
    stride *= std::max<int64_t>(form.dims[axis], 1);
  }
  form.offset = 3;
  return form;
}

std::optional<Form> MaskOf(const TrainingCase& c) {
  const TrainingSizes& s = c.sizes;
  const auto count = static_cast<int64_t>(s.rows.size());
  const int64_t rows = Most(s.rows);
  const int64_t columns = Most(s.columns);
  const auto four = [&](int64_t a, int64_t b) {
    return Form{c.mask_type, {a, b, rows, columns}};
  };
  switch (c.mask) {
    case MaskForm::kNone:
      return std::nullopt;
    case MaskForm::kLongest:
      return MaybeSpread(c, {c.mask_type, {rows, columns}});
    case MaskForm::kAll:
      return MaybeSpread(c, {c.mask_type, {Sum(s.rows), Sum(s.columns)}});
    case MaskForm::kOne:
      return MaybeSpread(c, four(1, 1));
    case MaskForm::kPerSequence:
      return MaybeSpaced(c, four(count, 1));
    case MaskForm::kPerHead:
      return MaybeSpaced(c, four(count, s.heads));
    case MaskForm::kCompressed:
      // One element stands for all: nobody reads them.
      return Form{c.mask_type, {c.mode == 6 ? 3072 : 2048, 2048}, {0, 0}};
  }
  return std::nullopt;
}

std::optional<Form> PseOf(const TrainingCase& c) {
  const TrainingSizes& s = c.sizes;
  const int64_t count = s.count();
  const auto dense = [&](int64_t sequences, int64_t rows) {
    return MaybeSpread(c,
                       {s.type, {sequences, s.heads, rows, s.columns.front()}});
  };
  switch (c.pse) {
    case PseForm::kNone:
      return std::nullopt;
    case PseForm::kEvery:
      if (!s.packed()) return dense(count, s.rows.front());
      return MaybeSpaced(c, {s.type, {s.heads * Scores(s)}});
    case PseForm::kShared:
      if (!s.packed()) return dense(count, 1);
      return MaybeSpaced(c, {s.type, {s.heads * Sum(s.columns)}});
    case PseForm::kEveryOnce:
      return dense(1, s.rows.front());
    case PseForm::kSharedOnce:
      return dense(1, 1);
    case PseForm::kCompressed:
      return Form{s.type, {1, s.heads, kStored, Most(s.columns)}};
    case PseForm::kCompressedEach:
      return Form{s.type, {count, s.heads, kStored, Most(s.columns)}};
    case PseForm::kSlopes:
      return MaybeSpaced(c, {ACL_FLOAT, {s.heads}});
    case PseForm::kSlopesEach:
      return MaybeSpread(c, {ACL_FLOAT, {count, s.heads}});
  }
  return std::nullopt;
}

int64_t Operands::kv_head(int64_t n) const {
  return n / (c.sizes.heads / c.sizes.kv_heads);
}

int64_t Operands::Index(size_t b, int64_t n, int64_t i, int64_t j) const {
  int64_t before = 0;
  for (size_t other = 0; other < b; ++other) {
    before += rows(other) * columns(other);
  }
  return c.sizes.heads * before + (n * rows(b) + i) * columns(b) + j;
}

int64_t Operands::QueryAt(size_t b, int64_t n, int64_t i, int64_t dim) const {
  const int64_t heads = sizes().heads;
  if (sizes().layout == "BNSD") {
    return ((static_cast<int64_t>(b) * heads + n) * rows(b) + i) * dim;
  }
  return (RowAt(sizes(), sizes().rows, b, i) * heads + n) * dim;
}

int64_t Operands::KeyAt(size_t b, int64_t n, int64_t j, int64_t dim) const {
  const int64_t heads = sizes().kv_heads;
  const int64_t head = kv_head(n);
  if (sizes().layout == "BNSD") {
    return ((static_cast<int64_t>(b) * heads + head) * columns(b) + j) * dim;
  }
  return (RowAt(sizes(), sizes().columns, b, j) * heads + head) * dim;
}

int64_t Operands::PseIndex(size_t b, int64_t n, int64_t i, int64_t j) const {
  switch (c.pse) {
    case PseForm::kEveryOnce:
      return Index(0, n, i, j);
    case PseForm::kSharedOnce:
      return n * columns(b) + j;
    case PseForm::kShared:
      if (Scores(c.sizes) == Sum(c.sizes.columns)) return Index(b, n, i, j);
      return c.sizes.heads * FirstColumn(b) + n * columns(b) + j;
    default:
      return Index(b, n, i, j);
  }
}

double Operands::Distance(size_t b, int64_t i, int64_t j) const {
  const bool shifted = c.mask == MaskForm::kNone || c.mode != 8 || b == 0;
  const int64_t start =
      shifted ? c.kv_start.value_or(0) - c.q_start.value_or(0) : 0;
  const double distance = std::fabs(static_cast<double>(j - i + start));
  return c.pse_type == 3 ? std::sqrt(distance) : distance;
}

std::pair<int64_t, int64_t> Operands::Stored(int64_t i, int64_t j) const {
  const int64_t missing = Most(c.sizes.columns) - kStored;
  if (i >= missing) return {i - missing, j};
  const int64_t p = i - j - missing;
  return p >= 0 ? std::pair{p, int64_t{0}} : std::pair{int64_t{0}, -p};
}

double Operands::Pse(size_t b, int64_t n, int64_t i, int64_t j) const {
  const auto sequence = static_cast<int64_t>(b);
  switch (c.pse) {
    case PseForm::kNone:
      return 0;
    case PseForm::kEvery:
    case PseForm::kShared:
    case PseForm::kEveryOnce:
    case PseForm::kSharedOnce:
      return pse->Nth(PseIndex(b, n, i, j));
    case PseForm::kCompressed:
    case PseForm::kCompressedEach: {
      const auto [r, k] = Stored(i, j);
      return pse->Get({c.pse == PseForm::kCompressed ? 0 : sequence, n, r, k});
    }
    case PseForm::kSlopes:
      return -pse->Get({n}) * Distance(b, i, j);
    case PseForm::kSlopesEach:
      return -pse->Get({sequence, n}) * Distance(b, i, j);
  }
  return 0;
}

double Operands::Score(size_t b, int64_t n, int64_t i, int64_t j) const {
  double x = 0;
  int64_t t = QueryAt(b, n, i, c.sizes.dim);
  int64_t u = KeyAt(b, n, j, c.sizes.dim);
  for (int64_t d = 0; d < c.sizes.dim; ++d) {
    x += query->Nth(t + d) * key->Nth(u + d);
  }
  t = QueryAt(b, n, i, c.rope_dim);
  u = KeyAt(b, n, j, c.rope_dim);
  for (int64_t d = 0; d < c.rope_dim; ++d) {
    x += query_rope->Nth(t + d) * key_rope->Nth(u + d);
  }
  const double scale = static_cast<float>(c.scale);
  const double p = Pse(b, n, i, j);
  return c.pse_type == 1 ? (x + p) * scale : x * scale + p;
}

bool Operands::Hidden(size_t b, int64_t n, int64_t i, int64_t j) const {
  const auto sequence = static_cast<int64_t>(b);
  switch (c.mask) {
    case MaskForm::kLongest:
      return mask->Get({i, j}) != 0;
    case MaskForm::kAll:
      return mask->Get({FirstRow(b) + i, FirstColumn(b) + j}) != 0;
    case MaskForm::kOne:
      return mask->Get({0, 0, i, j}) != 0;
    case MaskForm::kPerSequence:
    case MaskForm::kPerHead:
      // Backward reads one block per sequence, as long as the sequence.
      if (backward) {
        const int64_t heads = c.mask == MaskForm::kPerHead ? c.sizes.heads : 1;
        const int64_t head = heads == 1 ? 0 : n;
        int64_t before = 0;
        for (size_t other = 0; other < b; ++other) {
          before += rows(other) * columns(other);
        }
        return mask->Nth(heads * before + (head * rows(b) + i) * columns(b) +
                         j) != 0;
      }
      return mask->Get(
                 {sequence, c.mask == MaskForm::kPerHead ? n : 0, i, j}) != 0;
    default:
      return false;
  }
}

bool Operands::Sees(size_t b, int64_t n, int64_t i, int64_t j) const {
  if (c.mask == MaskForm::kNone) return true;
  const int64_t d = j - i;
  const int64_t off = columns(b) - rows(b);
  // Tokens may be the greatest integer there is.
  const double pre = static_cast<double>(c.pre);
  const double next = static_cast<double>(c.next);
  const double beside = static_cast<double>(d - off);
  const bool band = -pre <= beside && beside <= next;
  switch (c.mode) {
    case 0:
      return !Hidden(b, n, i, j) && -pre <= static_cast<double>(d) &&
             static_cast<double>(d) <= next;
    case 1:
    case 5:
      return !Hidden(b, n, i, j);
    case 2:
      return d <= 0;
    case 3:
      return d <= off;
    case 4:
      return band;
    case 6:
      return d <= off || j < (*c.prefix)[b];
    case 7: {
      size_t last = c.sizes.rows.size() - 1;
      while (last > 0 && rows(last) == 0) --last;
      return b == last ? band : d <= off;
    }
    default: {
      size_t first = 0;
      while (first + 1 < c.sizes.rows.size() && rows(first) == 0) ++first;
      return b == first ? band : d <= 0;
    }
  }
}

double Operands::Keep(size_t b, int64_t n, int64_t i, int64_t j) const {
  if (!c.dropout) return 1;
  const int64_t g = Index(b, n, i, j);
  const auto byte = static_cast<unsigned>(drop->Nth(g / 8));
  const double keep = static_cast<float>(c.keep);
  return (byte >> (g % 8) & 1u) != 0 ? 1 / keep : 0;
}

int64_t Operands::Before(const std::vector<int64_t>& lengths, size_t b) {
  return std::accumulate(
      lengths.begin(), lengths.begin() + static_cast<ptrdiff_t>(b), int64_t{0});
}

RowResult Forward(const Operands& o, size_t b, int64_t n, int64_t i) {
  const int64_t v_dim = o.sizes().v_dim;
  RowResult row;
  row.out.assign(static_cast<size_t>(v_dim), 0);
  if (o.columns(b) == 0) return row;
  for (int64_t j = 0; j < o.columns(b); ++j) {
    row.scores.push_back(o.Sees(b, n, i, j) ? o.Score(b, n, i, j)
                                            : Softmax::kUnseen);
  }
  Softmax softmax(row.scores,
                  o.sink == nullptr ? Softmax::kUnseen : o.sink->Get({n}));
  if (softmax.sum == 0) {
    row.max = -FLT_MAX;
    row.sum = FLT_MAX;
    return row;
  }
  row.max = softmax.max;
  row.sum = softmax.sum;
  for (int64_t j = 0; j < o.columns(b); ++j) {
    softmax.weights[static_cast<size_t>(j)] *= o.Keep(b, n, i, j);
  }
  row.out = softmax.Of(v_dim, [&](int64_t j, int64_t d) {
    return o.value->Nth(o.KeyAt(b, n, j, v_dim) + d);
  });
  return row;
}

void FillRows(const TrainingSizes& sizes, DeviceTensor* tensor, int64_t used,
              Random& random) {
  if (tensor == nullptr) return;
  tensor->Fill(random, -1, 1);
  if (!sizes.packed()) return;
  const int64_t per_row = tensor->form().dims[1] * tensor->form().dims[2];
  for (int64_t n = used * per_row; n < tensor->elements(); ++n) {
    tensor->SetNth(n, kNan);
  }
}

void FillOperands(Operands& o, Random& random) {
  const int64_t rows = Sum(o.sizes().rows);
  const int64_t columns = Sum(o.sizes().columns);
  for (DeviceTensor* tensor : {o.query, o.query_rope}) {
    FillRows(o.sizes(), tensor, rows, random);
  }
  for (DeviceTensor* tensor : {o.key, o.value, o.key_rope}) {
    FillRows(o.sizes(), tensor, columns, random);
  }
  FillMask(o.c, o.mask, random);
  FillPse(o.c, o.pse, random);
  if (o.drop != nullptr) o.drop->FillIntegers(random, 0, 255);
  if (o.sink != nullptr) o.sink->Fill(random, -2, 2);
}

std::optional<Form> DropOf(const TrainingCase& c) {
  if (!c.dropout) return std::nullopt;
  const int64_t bits = c.sizes.heads * Scores(c.sizes);
  return Form{ACL_UINT8, {std::max<int64_t>((bits + 7) / 8, 1)}};
}

double ScaleOf(const TrainingCase& c) {
  return static_cast<double>(Most(c.sizes.rows) + Most(c.sizes.columns) +
                             c.sizes.dim) /
         c.keep;
}

}  // namespace flashacl::testing
