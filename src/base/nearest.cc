// SPDX-License-Identifier: Apache-2.0
// Optimal string alignment distance, one row per letter.
#include "base/nearest.h"

#include <algorithm>
#include <vector>

#include "base/str.h"

namespace flashacl {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

// Three rows are enough: a swap looks two rows back.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1),
      row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const char x = Lower(a[i - 1]);
      const char y = Lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1,
                         last[j - 1] + static_cast<size_t>(x != y)});
      const bool swapped =
          i > 1 && j > 1 && x == Lower(b[j - 2]) && y == Lower(a[i - 2]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string_view Nearest(std::string_view word,
                         std::span<const std::string_view> known) {
  // Longer words are nobody's slip.
  constexpr size_t kMaxLetters = 64;
  if (word.size() > kMaxLetters) return {};
  std::string_view nearest;
  size_t least = word.size();
  for (const std::string_view candidate : known) {
    const size_t distance = Distance(word, candidate);
    const size_t most = std::max<size_t>(1, candidate.size() / 3);
    if (distance > most || distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

std::string DidYouMean(std::string_view word,
                       std::span<const std::string_view> known) {
  const std::string_view nearest = Nearest(word, known);
  return nearest.empty() ? "" : Str("; did you mean {}?", nearest);
}

}  // namespace flashacl
