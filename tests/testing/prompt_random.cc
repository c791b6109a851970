// SPDX-License-Identifier: Apache-2.0
// Prefill calls at random, over all that the documents allow.
#include <algorithm>

#include "base/str.h"
#include "tests/testing/prompt_call.h"

namespace flashacl::testing {

std::string ToString(const PromptCase& c) {
  return Str(
      "type {} {} B {} N {}/{} S {}/{} D {}/{} mask {} of type {} +{}+{} "
      "tokens "
      "{} {} lengths [{}] spread {} V{} kv lengths [{}] mode {} precise {} pse "
      "{} int8 {}{} out scales {}{}",
      static_cast<int>(c.type), c.layout, c.sequences, c.heads, c.kv_heads,
      c.rows, c.columns, c.dim, c.v_dim, static_cast<int>(c.mask),
      static_cast<int>(c.mask_type), c.more_rows, c.more_columns, c.pre_tokens,
      c.next_tokens, Join(c.lengths, ", "), c.spread, c.version,
      Join(c.kv_lengths, ", "), c.sparse_mode, c.inner_precise, c.pse_sequences,
      c.int8, c.whole_scales ? " whole" : "", c.out_scales,
      c.out_offset ? "+offset" : "");
}

PromptCase RandomPromptCase(Random& random) {
  static constexpr const char* kLayouts[] = {"BSH",       "BSND", "BNSD",
                                             "BNSD_BSND", "NSD",  "SH"};
  static constexpr aclDataType kMasks[] = {ACL_BOOL, ACL_INT8, ACL_UINT8};
  PromptCase c;
  c.type = random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  c.layout = kLayouts[random.Within(0, 5)];
  c.sequences = c.layout == "NSD" ? 1 : random.Within(1, 4);
  c.kv_heads = random.Within(1, 3);
  c.heads = c.kv_heads * random.Within(1, 4);
  c.rows = random.Within(1, 9);
  c.columns = random.OneIn(12) ? 0 : random.Within(1, 20);
  c.dim = random.OneIn(2) ? random.Within(1, 40) : 16 * random.Within(1, 4);
  c.v_dim = random.OneIn(2) ? c.dim : random.Within(1, 40);
  c.scale = random.OneIn(8) ? -0.5 : 0.2;
  c.spread = random.OneIn(3);
  const bool packed = c.layout == "SH";
  if (packed || random.OneIn(2)) {
    for (int64_t b = 0; b < c.sequences; ++b) {
      c.lengths.push_back(random.OneIn(5) ? 0 : random.Within(0, c.rows));
    }
    if (!packed && random.OneIn(4)) c.lengths.resize(1);
    if (!packed && c.lengths.size() > 1 && random.OneIn(4)) {
      c.lengths.push_back(99);  // surplus
    }
  }
  if (packed) {
    c.lengths.back() += 1;
    c.rows = 0;
    for (const int64_t length : c.lengths) c.rows += length;
    c.columns = c.rows;
    if (c.sequences == 1 && random.OneIn(3)) c.lengths.clear();
  }
  if (random.OneIn(4)) return c;
  c.mask = static_cast<PromptMask>(random.Within(1, 5));
  c.mask_type = kMasks[random.Within(0, 2)];
  c.more_rows = random.OneIn(3) ? random.Within(1, 4) : 0;
  c.more_columns = random.OneIn(3) ? random.Within(1, 12) : 0;
  c.next_tokens = random.OneIn(2) ? 2147483647 : random.Within(0, 4);
  c.pre_tokens = random.OneIn(2) ? 2147483647 : random.Within(0, 6);
  if (c.lengths.empty() && c.columns > 3 && c.rows > 2 && random.OneIn(3)) {
    const bool next = random.OneIn(2);
    c.pre_tokens = next ? 7 : -random.Within(1, 2);
    c.next_tokens = next ? -random.Within(1, 2) : 5;
  }
  return c;
}

namespace {

// Ends of `sequences` packed ones of up to `most` rows each.
std::vector<int64_t> RandomEnds(Random& random, int64_t sequences,
                                int64_t most) {
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (int64_t b = 0; b < sequences; ++b) {
    if (!random.OneIn(5)) end += random.Within(0, most);
    ends.push_back(b + 1 == sequences ? std::max<int64_t>(end, 1) : end);
  }
  return ends;
}

void DrawPackedLengths(Random& random, PromptCase& c) {
  c.lengths = RandomEnds(random, c.sequences, 9);
  c.kv_lengths = c.lengths;
  if (c.sparse_mode != 3 || random.OneIn(2)) {
    c.kv_lengths = RandomEnds(random, c.sequences, 20);
  }
  // Mode 3 wants no more queries than keys in a sequence.
  const std::vector<int64_t> rows = LengthsOf(c.lengths);
  const std::vector<int64_t> columns = LengthsOf(c.kv_lengths);
  for (size_t b = 0; b < rows.size(); ++b) {
    if (rows[b] > columns[b] && c.sparse_mode == 3) c.kv_lengths = c.lengths;
  }
  c.rows = c.lengths.back();
  c.columns = c.kv_lengths.back();
}

void DrawMode(Random& random, PromptCase& c) {
  static constexpr PromptMask kMasks[] = {PromptMask::k2, PromptMask::k13,
                                          PromptMask::kB3, PromptMask::k114,
                                          PromptMask::kB14};
  c.sparse_mode = random.Within(0, 4);
  c.mask = c.sparse_mode >= 2 ? PromptMask::kSquare
           : c.sparse_mode == 0 && random.OneIn(3)
               ? PromptMask::kNone
               : kMasks[random.Within(0, 4)];
  c.mask_type = random.OneIn(2) ? ACL_BOOL : ACL_INT8;
  c.pre_tokens = random.OneIn(3) ? 2147483647 : random.Within(0, 6);
  c.next_tokens = random.OneIn(3) ? 2147483647 : random.Within(0, 4);
}

// Whether a band with these tokens leaves rows without keys that an offset
// would have to say.
bool LeavesRows(const PromptCase& c) {
  if (c.packed() || !c.lengths.empty() || !c.kv_lengths.empty()) return true;
  const int64_t more = c.rows - c.columns;
  return more > 0 || more > c.pre_tokens || more > c.next_tokens;
}

}  // namespace

PromptCase RandomLaterPromptCase(Random& random) {
  static constexpr const char* kLayouts[] = {"BSH", "BSND", "BNSD", "BNSD_BSND",
                                             "NSD", "TND",  "NTD"};
  PromptCase c;
  c.version = random.OneIn(3) ? 2 : 3;
  c.type = random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  c.layout = kLayouts[random.Within(0, 6)];
  c.sequences = c.layout == "NSD" ? 1 : random.Within(1, 4);
  c.kv_heads = random.Within(1, 3);
  c.heads = c.kv_heads * random.Within(1, 4);
  c.rows = random.Within(1, 9);
  c.columns = random.OneIn(16) ? 0 : random.Within(1, 20);
  c.dim = random.OneIn(2) ? random.Within(1, 40) : 16 * random.Within(1, 4);
  c.v_dim = random.OneIn(2) ? c.dim : random.Within(1, 40);
  c.spread = random.OneIn(3);
  c.inner_precise = random.Within(0, 5);
  DrawMode(random, c);
  if (c.ends()) {
    DrawPackedLengths(random, c);
  } else {
    for (int64_t b = 0; b < c.sequences && random.OneIn(2); ++b) {
      c.lengths.push_back(random.Within(0, c.rows));
    }
    if (static_cast<int64_t>(c.lengths.size()) < c.sequences) c.lengths = {};
    if (random.OneIn(2)) {
      for (int64_t b = 0; b < c.sequences; ++b) {
        c.kv_lengths.push_back(random.Within(0, c.columns));
      }
      if (random.OneIn(4)) c.kv_lengths.resize(1);
    }
  }
  if (random.OneIn(3)) c.pse_sequences = random.OneIn(2) ? 1 : c.sequences;
  if (c.columns > 0 && random.OneIn(4)) {
    c.int8 = true;
    c.type = ACL_FLOAT16;
    c.whole_scales = random.OneIn(2);
  }
  if (random.OneIn(4)) {
    c.v_dim = random.OneIn(2) ? std::max(c.dim, c.v_dim) : 64;
    c.out_scales = c.v_dim % 32 == 0 ? c.heads * c.v_dim : 1;
    c.out_offset = c.sparse_mode == 2 || !LeavesRows(c);
  }
  return c;
}

}  // namespace flashacl::testing
