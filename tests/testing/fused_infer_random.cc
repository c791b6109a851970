// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnFusedInferAttentionScore at random, over all that its document
// allows.
#include <algorithm>
#include <array>

#include "tests/testing/fused_infer_case.h"

namespace flashacl::testing {
namespace {

constexpr std::array<const char*, 14> kLayouts = {
    "BSH",       "BSND",     "BNSD",    "BNSD_BSND", "BSH_BNSD",
    "BSND_BNSD", "BSH_NBSD", "NSD",     "BSND_NBSD", "BNSD_NBSD",
    "TND",       "NTD",      "NTD_TND", "TND_NTD"};

// Left paddings, prefixes and biases are for these.
bool Plain(const FusedInferCase& c) {
  return c.layout == "BSH" || c.layout == "BSND" || c.layout == "BNSD" ||
         c.layout == "BNSD_BSND";
}

void MakeSizes(FusedInferCase& c, Random& random) {
  c.type = random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  c.layout = kLayouts[static_cast<size_t>(random.Within(0, 13))];
  if (random.OneIn(5)) c.layout = "TND";
  if (random.OneIn(3)) {
    c.layout = kLayouts[static_cast<size_t>(random.Within(0, 3))];
  }
  c.sequences = c.layout == "NSD" ? 1 : random.Within(1, 4);
  c.kv_heads = random.Within(1, 3);
  c.heads = c.kv_heads * random.Within(1, 5);
  c.rows = random.OneIn(3) ? 1 : random.Within(2, 9);
  c.columns = random.OneIn(20) ? 0 : random.Within(1, 24);
  c.dim = random.OneIn(3) ? random.Within(1, 40) : 16 * random.Within(1, 4);
  c.v_dim = random.OneIn(3) ? random.Within(1, 40) : c.dim;
  if (random.OneIn(5)) c.rope_dim = random.OneIn(2) ? 16 : 64;
  c.scale = random.OneIn(8) ? -0.5 : 0.2;
  c.inner_precise = random.Within(0, 4);
  c.lse = !random.OneIn(3);
  c.spread = random.OneIn(3);
}

// Which scales keys have; the case's layout of keys is known.
void MakeScales(FusedInferCase& c, Random& random) {
  c.latent = c.rope_dim > 0 && c.type == ACL_BF16 && random.OneIn(2);
  if (c.rope_dim > 0 || random.OneIn(2)) return;
  c.v_dim = c.dim;
  c.scales = random.OneIn(3) ? FusedScales::kCombined : FusedScales::kSeparate;
  if (random.OneIn(3)) {
    c.bits = 4;
    c.dim = c.v_dim = 8 * random.Within(1, 20);
  }
  c.offsets = random.OneIn(2);
  c.scale_form = random.Within(0, 6);
  const bool rows = !c.packed() || c.paged();
  if (c.scales == FusedScales::kCombined) {
    c.key_mode = rows ? random.Within(0, 1) : 0;
    return;
  }
  static constexpr int64_t kAny[] = {0, 2, 1, 3, 4, 5};
  c.key_mode = kAny[random.Within(0, c.paged() ? 5 : rows ? 3 : 1)];
  if (c.bits == 4) {
    // Not of heads, nor of pages, nor one for all.
    if (c.key_mode == 2 || c.key_mode > 3) c.key_mode = rows ? 3 : 0;
    if (c.scale_form == 0) c.scale_form = 5;
  }
  c.value_mode = c.key_mode;
  if (c.key_mode == 0 && c.scale_form > 0 && rows && random.OneIn(4)) {
    c.value_mode = 1;
  }
}

void MakeKeys(FusedInferCase& c, Random& random) {
  if (random.OneIn(3)) {
    c.keys = static_cast<FusedKeys>(random.Within(2, 4));
  } else if (Plain(c) && c.sequences > 1 && random.OneIn(4)) {
    c.keys = FusedKeys::kList;
    for (int64_t b = 0; b < c.sequences; ++b) {
      c.own_columns.push_back(random.Within(0, 24));
    }
  }
  MakeScales(c, random);
  if (c.paged()) {
    c.block_size = 32 * random.Within(1, 2);
    if (c.scales == FusedScales::kNone && random.OneIn(2)) c.block_size = 16;
    c.columns = c.block_size * random.Within(1, 3);
    c.shared_pages = random.OneIn(4);
    c.missing_pages = random.OneIn(6);
  }
  if (c.keys == FusedKeys::kPagesOfChannels) {
    const bool bytes = c.scales != FusedScales::kNone || c.latent;
    const int64_t unit = !bytes ? 16 : c.bits == 4 ? 64 : 32;
    c.dim = unit * random.Within(1, 3);
    c.v_dim = c.scales == FusedScales::kNone && random.OneIn(4) ? unit : c.dim;
  }
}

void MakeLengths(FusedInferCase& c, Random& random) {
  const bool every = random.OneIn(2);
  if (c.packed() || every) {
    for (int64_t b = 0; b < c.sequences; ++b) {
      c.lengths.push_back(random.OneIn(6) ? 0 : random.Within(0, c.rows));
    }
    if (c.packed()) {
      c.lengths.back() += 1;
      if (random.OneIn(4)) c.surplus_rows = random.Within(1, 3);
    }
  }
  if (c.packed() || c.paged() || random.OneIn(2)) {
    for (int64_t b = 0; b < c.sequences; ++b) {
      const int64_t room = c.own_columns.empty()
                               ? c.columns
                               : c.own_columns[static_cast<size_t>(b)];
      c.kv_lengths.push_back(random.OneIn(8) ? 0 : random.Within(0, room));
    }
  }
  if (c.packed()) return;
  if (!c.lengths.empty() && random.OneIn(4)) c.lengths.resize(1);
  if (c.lengths.size() > 1 && random.OneIn(4)) c.lengths.push_back(99);
  if (c.keys != FusedKeys::kList && !c.kv_lengths.empty() && random.OneIn(4)) {
    c.kv_lengths.resize(1);
  }
  if (c.kv_lengths.size() > 1 && random.OneIn(4)) c.kv_lengths.push_back(999);
}

void MakePaddings(FusedInferCase& c, Random& random) {
  const bool apart = c.keys == FusedKeys::kList || c.paged();
  if (!Plain(c) || c.rope_dim > 0) return;
  if (c.decode() && random.OneIn(3)) {
    c.query_padding = random.Within(-1, 9);  // ignored
    if (c.bits == 8) c.kv_padding = random.Within(-1, 9);
    return;
  }
  if (apart || c.bits == 4) return;
  if (random.OneIn(4)) {
    if (random.OneIn(3)) c.query_padding = random.Within(-1, 4);
    if (random.OneIn(2)) c.kv_padding = random.Within(-1, 9);
  }
}

void MakePrefix(FusedInferCase& c, Random& random) {
  const bool rows =
      c.scales != FusedScales::kNone &&
      ((c.key_mode != 0 && c.key_mode != 2) ||
       (c.scales == FusedScales::kSeparate && c.value_mode != c.key_mode));
  const bool list = c.keys == FusedKeys::kList && !c.decode();
  if (!Plain(c) || c.paged() || c.rope_dim > 0 || rows || list ||
      c.total_columns() == 0 || c.query_padding || c.kv_padding ||
      !random.OneIn(3)) {
    return;
  }
  c.prefix = random.Within(1, 9);
  if (random.OneIn(2)) c.prefix_length = random.Within(0, c.prefix);
}

// A tree wants as many keys as rows, or none.
void MakeTree(FusedInferCase& c, Random& random) {
  c.mask = FusedMask::kTree;
  c.sparse_mode = 9;
  c.lengths.resize(static_cast<size_t>(c.sequences), 1);
  c.kv_lengths.resize(static_cast<size_t>(c.sequences), 1);
  for (int64_t b = 0; b < c.sequences; ++b) {
    const auto n = static_cast<size_t>(b);
    const int64_t room = c.keys == FusedKeys::kList ? c.own_columns[n]
                         : c.packed() && !c.paged() ? 24
                                                    : c.columns;
    const int64_t rows = std::min(c.rows, room);
    c.lengths[n] = random.Within(c.packed() && b == 0 ? 1 : 0, rows);
    c.kv_lengths[n] = random.OneIn(6) ? 0 : random.Within(c.lengths[n], room);
  }
}

void MakeMask(FusedInferCase& c, Random& random) {
  static constexpr aclDataType kTypes[] = {ACL_BOOL, ACL_INT8, ACL_UINT8};
  c.mask_type = kTypes[random.Within(0, 2)];
  const bool padded = c.query_padding || c.kv_padding;
  const bool trees = c.layout == "BSH" || c.layout == "BSND" ||
                     c.layout == "BNSD" || c.layout == "TND";
  if (trees && !c.decode() && !padded && c.prefix == 0 && c.columns > 0 &&
      random.OneIn(8)) {
    return MakeTree(c, random);
  }
  if (random.OneIn(4)) return;
  c.more_rows = random.OneIn(3) ? random.Within(1, 3) : 0;
  c.more_columns = random.OneIn(3) ? random.Within(1, 12) : 0;
  c.sparse_mode = random.Within(0, 4);
  c.mask = c.sparse_mode < 2 ? FusedMask::kFull : FusedMask::kSquare;
  if (c.decode() && c.mask == FusedMask::kSquare) {
    if (c.sparse_mode == 2) c.mask = FusedMask::kFull;
  }
  c.mask_rank = static_cast<size_t>(random.Within(c.packed() ? 3 : 2, 4));
  c.mask_for_all = c.mask_rank > 2 && random.OneIn(3);
  if (random.OneIn(2)) return;
  c.pre_tokens = random.OneIn(3) ? int64_t{1} << 40 : random.Within(-2, 8);
  c.next_tokens = random.OneIn(3)
                      ? int64_t{1} << 40
                      : random.Within(-std::min<int64_t>(c.pre_tokens, 3), 8);
  if (c.pre_tokens < 0) c.next_tokens = std::max(c.next_tokens, -c.pre_tokens);
}

// Whether an offset would show in a row that may lose all keys.
bool MayLoseKeys(const FusedInferCase& c) {
  if (c.decode() || c.mask == FusedMask::kNone) return false;
  for (int64_t b = 0; b < c.sequences; ++b) {
    const auto extent = c.ExtentOf(b);
    const int64_t shift = c.seen_prefix() + extent.columns - extent.rows;
    if (c.sparse_mode == 3 && shift < 0) return true;
    if (c.sparse_mode == 0 && (c.next_tokens < 0 || c.pre_tokens + shift < 0)) {
      return true;
    }
    if (c.sparse_mode == 4 && (c.pre_tokens < 0 || c.next_tokens + shift < 0)) {
      return true;
    }
  }
  return false;
}

void MakeResult(FusedInferCase& c, Random& random) {
  const bool plain = Plain(c) && c.rope_dim == 0;
  if (!c.decode() && plain && c.keys == FusedKeys::kOne && c.rows > 1 &&
      c.scales == FusedScales::kNone && c.prefix == 0 && c.columns > 0 &&
      !c.query_padding && !c.kv_padding && c.mask != FusedMask::kTree &&
      random.OneIn(3)) {
    c.int8 = true;
    c.type = ACL_FLOAT16;
  }
  if ((plain || (c.layout == "TND" && c.rope_dim == 0)) &&
      c.mask != FusedMask::kTree && random.OneIn(4)) {
    c.pse_sequences = random.OneIn(2) ? 1 : c.sequences;
  }
  if (!c.int8 && random.OneIn(5)) {
    c.sink = c.type == ACL_FLOAT16 && random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  }
  const bool negative =
      c.sparse_mode == 4 && (c.pre_tokens < 0 || c.next_tokens < 0);
  if (!random.OneIn(5) || c.mask == FusedMask::kTree ||
      (negative && !c.decode())) {
    return;
  }
  c.out_scales = random.OneIn(2) ? 1 : c.heads * c.v_dim;
  // Nobody says whether an offset shows where there are no keys at all.
  c.out_offset = random.OneIn(2) && !MayLoseKeys(c) && c.total_columns() > 0;
  if (c.type == ACL_BF16 && !c.latent && random.OneIn(2)) {
    c.out_scale_type = ACL_BF16;
  }
}

int OldestVersion(const FusedInferCase& c) {
  if (c.sink || c.latent) return 4;
  if (c.rope_dim > 0) return 3;
  const bool apart = c.scales == FusedScales::kSeparate;
  return c.prefix > 0 || apart || c.bits == 4 ? 2 : 1;
}

}  // namespace

FusedInferCase RandomFusedInferCase(Random& random) {
  FusedInferCase c;
  MakeSizes(c, random);
  MakeKeys(c, random);
  MakeLengths(c, random);
  MakePaddings(c, random);
  MakePrefix(c, random);
  MakeMask(c, random);
  MakeResult(c, random);
  c.version = static_cast<int>(random.Within(OldestVersion(c), 5));
  // Rows of blocks that are spread repeat their words.
  const bool blocks = c.keys == FusedKeys::kPagesOfChannels;
  c.int4 = c.bits == 4 && !(c.spread && blocks) && random.OneIn(4);
  return c;
}

}  // namespace flashacl::testing
