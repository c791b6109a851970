// SPDX-License-Identifier: Apache-2.0
// The fields of the notation that are more than a name: numbers,
// lengths, mask rules, axes, encodings. Each is read and written here, side by
// side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "problem/mask.h"
#include "problem/problem_spec.h"

namespace flashacl::notation_fields {

// Parts of `text` between separators: one more than there are separators.
std::vector<std::string_view> Split(std::string_view text, char separator);

// A whole number from `least` to 2^40, and nothing else.
std::optional<int64_t> ReadWhole(std::string_view text, int64_t least);

// A finite number, as short as it can be to be read back the same.
std::optional<float> ReadFloat(std::string_view text);
std::string WriteFloat(float value);

// N | COUNTxN, joined by commas. "0x0" has none.
std::optional<std::vector<int64_t>> ReadLengths(std::string_view text);
std::string WriteLengths(const std::vector<int64_t>& lengths);

// RULE | COUNTxRULE, joined by commas.
std::optional<std::vector<MaskRule>> ReadRules(std::string_view text);
std::string WriteRules(const std::vector<MaskRule>& rules);

// b (sequence), h (head), i (row), in this order, then `last`: "j", or "" for
// slopes, which have no rows and are "1" where nothing varies.
std::optional<ProblemSpec::Axes> ReadAxes(std::string_view text,
                                          std::string_view last);
std::string WriteAxes(const ProblemSpec::Axes& axes, std::string_view last);

// tensor | channel | row | row-head | page-row | page-row-head, with +offset.
std::optional<ProblemSpec::Encoding> ReadEncoding(std::string_view text);
std::string WriteEncoding(const ProblemSpec::Encoding& encoding);

}  // namespace flashacl::notation_fields
