// SPDX-License-Identifier: Apache-2.0
// What a caller of the C operators says of a mask, as rules.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/status.h"
#include "problem/mask.h"

namespace flashacl::tool {

// The attributes of the C operators, under their names there.
struct SparseMode {
  int64_t mode = -1;             // not asked for
  std::vector<int64_t> rows;     // per sequence
  std::vector<int64_t> columns;  // per sequence
  std::vector<int64_t> prefix;   // one, or per sequence
  int64_t pre_tokens = std::numeric_limits<int32_t>::max();
  int64_t next_tokens = std::numeric_limits<int32_t>::max();
};

// The rule the mode means for sequence number `sequence`.
Result<MaskRule> RuleOf(const SparseMode& sparse, size_t sequence);

// What a mask tensor adds in this mode; empty if nothing.
std::string_view TensorSentence(int64_t mode);

}  // namespace flashacl::tool
