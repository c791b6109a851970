// SPDX-License-Identifier: Apache-2.0
// Random calls on packed sequences.
#include "tests/testing/varlen_random.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/testing/random.h"

namespace flashacl::testing {
namespace {

// Lengths that a mode takes: `below` keeps queries at most as many as keys.
void ChooseLengths(VarLenCase& c, bool below, Random& random) {
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
void ChooseTokens(VarLenCase& c, Random& random) {
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
void ShiftTokens(VarLenCase& c, Random& random) {
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

void ChooseMask(VarLenCase& c, Pass pass, Random& random) {
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

}  // namespace

void ChooseSizesAndMask(VarLenCase& c, Pass pass, Random& random) {
  c.sizes.kv_heads = random.Within(1, 3);
  c.sizes.heads = c.sizes.kv_heads * random.Within(1, 3);
  c.sizes.dim = Sized(random, 1, 40);
  c.sizes.v_dim = random.OneIn(3) ? random.Within(1, c.sizes.dim) : c.sizes.dim;
  if (random.OneIn(4)) {
    ChooseLengths(c, false, random);
  } else {
    ChooseMask(c, pass, random);
  }
  c.scale = OneOf(random, {1.0, 0.5, 0.088388, -0.3, 0.0});
  c.spread = random.OneIn(3);
}

}  // namespace flashacl::testing
