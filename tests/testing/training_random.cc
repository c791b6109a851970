// SPDX-License-Identifier: Apache-2.0
// Random calls for training.
#include "tests/testing/training_random.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/testing/random.h"

namespace flashacl::testing {
namespace {

// Lengths that a mode takes: `below` keeps queries at most as many as keys.
void ChooseLengths(TrainingCase& c, bool below, Random& random) {
  const int64_t count = Sized(random, 1, 5);
  c.sizes.rows.clear();
  c.sizes.columns.clear();
  for (int64_t b = 0; b < count; ++b) {
    int64_t rows = random.OneIn(5) ? 0 : Sized(random, 1, 20);
    int64_t columns = random.OneIn(6) ? 0 : Sized(random, 1, 30);
    if (below && rows > columns) std::swap(rows, columns);
    c.sizes.rows.push_back(rows);
    c.sizes.columns.push_back(columns);
  }
  if (random.OneIn(3)) c.sizes.row_tail = random.Within(1, 4);
  if (random.OneIn(3)) c.sizes.column_tail = random.Within(1, 4);
}

// Tokens and prefixes that the documents allow for the chosen lengths.
void ChooseTokens(TrainingCase& c, Random& random) {
  int64_t most_above = 0;  // of queries over keys
  int64_t band = -1;
  std::vector<int64_t> prefix;
  for (size_t b = 0; b < c.sizes.rows.size(); ++b) {
    const int64_t rows = c.sizes.rows[b];
    const int64_t columns = c.sizes.columns[b];
    if (rows > 0 && columns > 0)
      most_above = std::max(most_above, rows - columns);
    if (rows > 0 && (c.mode == 7 || band < 0)) band = static_cast<int64_t>(b);
    const int64_t least = std::max<int64_t>(columns - rows, 0);
    prefix.push_back(columns > 0 ? random.Within(least, columns) : 0);
  }
  c.prefix = prefix;
  const int64_t pre = most_above + Sized(random, 0, 25);
  const int64_t next = most_above + Sized(random, 0, 25);
  c.pre = random.OneIn(4) ? INT64_MAX : pre;
  c.next = random.OneIn(4) ? 2147483647 : next;
  if (c.mode < 7 || band < 0) return;
  const int64_t rows = c.sizes.rows[static_cast<size_t>(band)];
  const int64_t columns = c.sizes.columns[static_cast<size_t>(band)];
  c.pre = columns + Sized(random, 0, 9);
  const int64_t least = rows - columns;
  const int64_t most = c.mode == 7 ? 0 : std::max<int64_t>(least, 0) + columns;
  c.next = columns == 0 ? 0 : random.Within(std::min(least, most), most);
}

// Backward only asks that the band meets the scores, so it may also lie beside
// the diagonal.
void ShiftTokens(TrainingCase& c, Random& random) {
  if (c.mode != 0 && c.mode != 4) return;
  if (c.pre == 0 && c.next == 0) c.next = 1;
  if (!random.OneIn(3)) return;
  int64_t least = 30;  // of rows and columns
  for (size_t b = 0; b < c.sizes.rows.size(); ++b) {
    const int64_t rows = c.sizes.rows[b];
    const int64_t columns = c.sizes.columns[b];
    if (rows > 0 && columns > 0) least = std::min({least, rows, columns});
  }
  const int64_t shift = random.Within(0, least);
  const int64_t width = Sized(random, 1, 9);
  const bool left = random.OneIn(2);
  c.pre = left ? shift + width : -shift;
  c.next = left ? -shift : shift + width;
}

void ChooseMask(TrainingCase& c, Pass pass, Random& random) {
  c.mode = OneOf<int64_t>(random, {0, 0, 1, 2, 3, 4, 6, 7, 8});
  c.mask =
      c.mode > 1
          ? MaskForm::kCompressed
          : OneOf(random, {MaskForm::kLongest, MaskForm::kAll, MaskForm::kOne,
                           MaskForm::kPerSequence, MaskForm::kPerHead});
  c.mask_type = OneOf(random, {ACL_BOOL, ACL_UINT8});
  ChooseLengths(c, pass == Pass::kForward && (c.mode == 3 || c.mode == 7),
                random);
  ChooseTokens(c, random);
  if (pass == Pass::kBackward) ShiftTokens(c, random);
}

// Tokens around the diagonal from the top left, or beside it on one side; the
// modes' own tokens are counted from elsewhere.
void ChooseDenseTokens(TrainingCase& c, Random& random) {
  const int64_t rows = c.sizes.rows.front();
  const int64_t columns = c.sizes.columns.front();
  int64_t pre = random.OneIn(4) ? INT32_MAX : Sized(random, 0, 25);
  int64_t next = random.OneIn(4) ? INT32_MAX : Sized(random, 0, 25);
  if (rows > 0 && columns > 0 && random.OneIn(3)) {
    const bool right = random.OneIn(2);
    const int64_t shift = random.Within(1, right ? columns : rows) - 1;
    (right ? pre : next) = -shift;
    (right ? next : pre) = shift + Sized(random, 0, 9);
  }
  const int64_t below = c.mode == 4 ? columns - rows : 0;
  c.pre = pre + below;
  c.next = next - below;
}

void ChooseDenseMask(TrainingCase& c, Random& random) {
  c.mode = OneOf<int64_t>(random, {0, 0, 1, 2, 3, 4, 5, 6});
  const bool whole = c.mode < 2 || (c.mode == 5 && c.sizes.count() == 1);
  const bool full = whole || c.mode == 5;
  c.mask = !full ? MaskForm::kCompressed
           : whole
               ? OneOf(random, {MaskForm::kLongest, MaskForm::kOne,
                                MaskForm::kPerSequence, MaskForm::kPerHead})
               : OneOf(random, {MaskForm::kPerSequence, MaskForm::kPerHead});
  c.mask_type = OneOf(random, {ACL_BOOL, ACL_UINT8});
  ChooseDenseTokens(c, random);
  c.prefix.emplace();
  for (size_t b = 0; b < c.sizes.rows.size(); ++b) {
    const int64_t columns = c.sizes.columns[b];
    const int64_t least = std::max<int64_t>(columns - c.sizes.rows[b], 0);
    c.prefix->push_back(random.Within(least, std::max(least, columns)));
  }
  if (c.mode == 5 && random.OneIn(2)) c.prefix = {{-7}};  // not looked at
}

void ChooseDenseLengths(TrainingCase& c, Random& random) {
  const auto count = static_cast<size_t>(Sized(random, 1, 4));
  const int64_t rows = random.OneIn(12) ? 0 : Sized(random, 1, 20);
  int64_t columns = random.OneIn(12) ? 0 : Sized(random, 1, 30);
  if (random.OneIn(3)) columns = rows;
  c.sizes.rows.assign(count, rows);
  c.sizes.columns.assign(count, columns);
}

void ChooseSizesAndMask(TrainingCase& c, Pass pass, Random& random) {
  c.sizes.kv_heads = random.Within(1, 3);
  c.sizes.heads = c.sizes.kv_heads * random.Within(1, 3);
  c.sizes.dim = Sized(random, 1, 40);
  c.sizes.v_dim = random.OneIn(3) ? random.Within(1, c.sizes.dim) : c.sizes.dim;
  const bool masked = !random.OneIn(4);
  if (!c.sizes.packed()) {
    ChooseDenseLengths(c, random);
    if (masked) ChooseDenseMask(c, random);
  } else if (masked) {
    ChooseMask(c, pass, random);
  } else {
    ChooseLengths(c, false, random);
  }
}

// Biases; modes that cut a sequence take none, or only one for the uncut.
void ChoosePse(TrainingCase& c, bool types, Random& random) {
  const bool split = c.mask != MaskForm::kNone && c.mode >= 7;
  if (split || random.OneIn(2)) return;
  const bool square = !c.sizes.packed() && c.sizes.rows == c.sizes.columns;
  const int64_t last = c.sizes.packed() || square ? 3 : 1;
  if (types) c.pse_type = random.Within(0, last);
  if (c.pse_type > 1) {
    c.pse = OneOf(random, {PseForm::kSlopes, PseForm::kSlopesEach});
  } else if (c.sizes.packed()) {
    c.pse = OneOf(random, {PseForm::kEvery, PseForm::kShared});
  } else {
    c.pse = OneOf(random, {PseForm::kEvery, PseForm::kShared,
                           PseForm::kEveryOnce, PseForm::kSharedOnce});
  }
  c.pse_gradient = random.OneIn(2);
  if (types && random.OneIn(2)) c.q_start = random.Within(-5, 20);
  if (types && random.OneIn(2)) c.kv_start = random.Within(-5, 20);
}

}  // namespace

TrainingCase ChooseCase(const std::string& layout, Pass pass, Random& random) {
  const bool backward = pass == Pass::kBackward;
  TrainingCase c;
  c.sizes.layout = layout;
  c.sizes.type = OneOf(random, {ACL_FLOAT16, ACL_BF16, ACL_FLOAT});
  ChooseSizesAndMask(c, pass, random);
  c.scale = OneOf(random, {1.0, 0.5, 0.088388, -0.3, 0.0});
  c.spread = random.OneIn(3);
  c.inner_precise = random.Within(0, 2);

  c.version = static_cast<int>(random.Within(1, VersionsOf(c.sizes.packed())));
  const VersionFeatures has = FeaturesOf(c.sizes.packed(), c.version);
  // Rope goes with a mask, and without biases, dropout and mode 6.
  if (has.rope && c.mask != MaskForm::kNone && c.mode != 6 && random.OneIn(3)) {
    c.sizes.type = ACL_BF16;
    c.rope_dim = random.Within(1, c.sizes.dim);
  }
  if (c.rope_dim == 0) ChoosePse(c, has.pse_types, random);
  if (c.rope_dim == 0 && random.OneIn(3)) {
    c.dropout = true;
    c.keep = OneOf(random, {0.9, 0.5, 0.1, 1.0});
    if (backward && c.keep == 1) c.keep = 0.7;  // there it means no dropout
  }
  const bool may_sink = !backward || c.sizes.type != ACL_FLOAT;
  c.sink = has.sink && may_sink && random.OneIn(3);
  c.sink_gradient = !random.OneIn(4);
  c.same_as_input = has.statistic_order && random.OneIn(2);
  c.foreign = random.OneIn(2);
  return c;
}

}  // namespace flashacl::testing
