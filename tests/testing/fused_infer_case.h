// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnFusedInferAttentionScore and its later versions in a few words:
// layouts, where keys are, who sees whom, scales.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acl/acl.h"
#include "base/random.h"

namespace flashacl::testing {

// Where keys and values are.
enum class FusedKeys : uint8_t {
  kOne,
  kList,
  kPagesOfRows,      // [page, row, head * channel]
  kPagesOfHeads,     // [page, head, row, channel]
  kPagesOfChannels,  // [page, head, channel / u, row, channel % u], "NZ"
};

enum class FusedMask : uint8_t { kNone, kFull, kSquare, kTree };

// Which scales quantised keys and values have.
enum class FusedScales : uint8_t { kNone, kCombined, kSeparate };

struct FusedInferCase {
  int version = 5;
  aclDataType type = ACL_FLOAT16;  // query's; with `int8`, the result's
  std::string layout = "BNSD";
  int64_t sequences = 2;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t rows = 3;     // Sq; not of packed layouts
  int64_t columns = 5;  // Skv; with pages, of a row of the table; neither of
                        // lists nor of packed layouts
  int64_t dim = 16;
  int64_t v_dim = 16;
  int64_t rope_dim = 0;
  double scale = 0.25;
  int64_t inner_precise = 1;
  bool lse = true;
  bool spread = false;  // all tensors in memory with gaps

  // Of each sequence, also in packed layouts, where ends are passed; empty:
  // none passed.
  std::vector<int64_t> lengths = {};
  std::vector<int64_t> kv_lengths = {};
  int64_t surplus_rows = 0;  // packed: after the last sequence

  FusedKeys keys = FusedKeys::kOne;
  std::vector<int64_t> own_columns = {};  // kList: of each sequence
  int64_t block_size = 0;
  bool shared_pages = false;   // sequences have their first page in common
  bool missing_pages = false;  // some ids name no page

  FusedMask mask = FusedMask::kNone;
  size_t mask_rank = 4;
  bool mask_for_all = false;  // a leading 1
  aclDataType mask_type = ACL_BOOL;
  int64_t more_rows = 0;  // of mask and pse, which nobody looks at
  int64_t more_columns = 0;
  int64_t sparse_mode = 0;
  int64_t pre_tokens = 2147483647;
  int64_t next_tokens = 2147483647;

  int64_t pse_sequences = 0;  // 1 or as many as there are; 0: none
  std::optional<aclDataType> sink = {};
  std::optional<int64_t> query_padding = {};
  std::optional<int64_t> kv_padding = {};
  int64_t prefix = 0;  // rows of the prefix's tensors; 0: none
  std::optional<int64_t> prefix_length = {};

  FusedScales scales = FusedScales::kNone;
  int64_t bits = 8;      // of keys with scales: 8 or 4
  bool int4 = false;     // 4 bits as ACL_INT4, not as words of ACL_INT32
  int64_t key_mode = 0;  // antiquantMode if they are combined
  int64_t value_mode = 0;
  int64_t scale_form = 0;  // which of the shapes of its mode
  bool offsets = false;

  int64_t out_scales = 0;  // 1, or one per channel; 0: no INT8 result
  bool out_offset = false;
  aclDataType out_scale_type = ACL_FLOAT;
  bool int8 = false;    // query, key and value of prefill
  bool latent = false;  // the same of latent decode

  bool packed() const { return layout.find('T') != std::string::npos; }
  bool paged() const { return keys >= FusedKeys::kPagesOfRows; }
  std::string_view in() const;   // query's layout
  std::string_view out() const;  // attentionOut's
  // One token per sequence, by the rule that ignores half of the arguments.
  bool decode() const;
  int64_t total_rows() const;       // of query's axis
  int64_t total_columns() const;    // of key's axis, the longest of a list
  int64_t longest_rows() const;     // what masks cover
  int64_t longest_columns() const;  // without a prefix
  int64_t seen_prefix() const { return prefix_length.value_or(prefix); }

  // Where sequence b is: its first row and key on their axes, and how many;
  // `fits` is false where left padding leaves too little room.
  struct Extent {
    int64_t row, rows, column, columns;
    bool fits;
  };
  Extent ExtentOf(int64_t b) const;
};

std::string ToString(const FusedInferCase& c);
FusedInferCase RandomFusedInferCase(Random& random);

}  // namespace flashacl::testing
