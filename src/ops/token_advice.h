// SPDX-License-Identifier: Apache-2.0
// Strict mode's advice on preTokens and nextTokens that a call ignores.
#pragma once

#include <cstdint>
#include <string_view>

namespace flashacl::ops {

struct GivenTokens {
  std::string_view pre_name, next_name;
  int64_t pre = 0;
  int64_t next = 0;
  int64_t sparse_mode = 0;
  bool has_mask = false;  // without one no operator looks at them
  int64_t longest = 0;    // of all rows and columns: as many hide nothing
};

// Tells of those that would hide scores, where their sparse mode, or the lack
// of a mask, takes no heed of them.
void AdviseOnTokens(const GivenTokens& given);

}  // namespace flashacl::ops
