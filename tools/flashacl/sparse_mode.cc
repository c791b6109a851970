// SPDX-License-Identifier: Apache-2.0
// Sparse modes 0 to 8 of the C operators.
#include "tools/flashacl/sparse_mode.h"

#include <algorithm>
#include <string_view>

namespace flashacl::tool {
namespace {

// The sequence that a mode 7 or 8 treats as a band: the last, or first, with
// any rows.
size_t BandSequence(const SparseMode& sparse) {
  const auto has_rows = [](int64_t rows) { return rows > 0; };
  const std::vector<int64_t>& rows = sparse.rows;
  if (sparse.mode == 7) {
    const auto last = std::find_if(rows.rbegin(), rows.rend(), has_rows);
    return static_cast<size_t>(rows.rend() - last) - 1;
  }
  const auto first = std::find_if(rows.begin(), rows.end(), has_rows);
  return static_cast<size_t>(first - rows.begin());
}

Result<MaskRule> Prefix(const SparseMode& sparse, size_t sequence) {
  const size_t given = sparse.prefix.size();
  if (given != 1 && given != sparse.rows.size()) {
    return Invalid(
        "--prefix: {} given; sparse mode {} wants one, or one for each of {} "
        "sequences",
        given, sparse.mode, sparse.rows.size());
  }
  MaskRule rule = Causal();
  rule.band.prefix = sparse.prefix[given == 1 ? 0 : sequence];
  return rule;
}

}  // namespace

Result<MaskRule> RuleOf(const SparseMode& sparse, size_t sequence) {
  const int64_t pre = sparse.pre_tokens;
  const int64_t next = sparse.next_tokens;
  switch (sparse.mode) {
    case 0:
      return TopLeftBand(-pre, next);
    case 1:
      return MaskRule{};
    case 2:
      return CausalTopLeft();
    case 3:
      return Causal();
    case 4:
      return Window(pre, next);
    case 5:
    case 6:
      return Prefix(sparse, sequence);
    case 7:
    case 8:
      if (sequence == BandSequence(sparse)) return Window(pre, next);
      return sparse.mode == 7 ? Causal() : CausalTopLeft();
    default:
      return Invalid("--sparse-mode: {} is not one of 0 to 8", sparse.mode);
  }
}

std::string_view TensorSentence(int64_t mode) {
  switch (mode) {
    case 0:
      return "mode 0 hides what the mask tensor hides besides; without that "
             "tensor it ignores the tokens and hides nothing";
    case 1:
      return "mode 1 hides what the mask tensor hides, and nothing else";
    case 5:
      return "mode 5 hides what the mask tensor hides, which must say the same";
    default:
      return "";
  }
}

}  // namespace flashacl::tool
