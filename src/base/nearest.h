// SPDX-License-Identifier: Apache-2.0
// What somebody who mistyped a word may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace flashacl {

// The known word that takes the fewest letters added, dropped, changed or
// swapped with their neighbour to become `word`; empty where even that one
// takes more than a third of its letters. Case does not count.
std::string_view Nearest(std::string_view word,
                         std::span<const std::string_view> known);

// "; did you mean causal?", or nothing.
std::string DidYouMean(std::string_view word,
                       std::span<const std::string_view> known);

}  // namespace flashacl
