// SPDX-License-Identifier: Apache-2.0
// Readers take the whole of a text or nothing.
#include "problem/notation_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "base/str.h"

namespace flashacl::notation_fields {
namespace {

constexpr int64_t kOpen = Band::kOpen;
constexpr int64_t kMaxRepeats = int64_t{1} << 20;

// Of ProblemSpec::Scales, from kTensor on.
constexpr std::string_view kScales[] = {
    "tensor", "channel", "row", "row-head", "page-row", "page-row-head"};

// A distance: a whole number of either sign, or "*" for `open`.
std::optional<int64_t> ReadDistance(std::string_view text, int64_t open) {
  if (text == "*") return open;
  return ReadWhole(text, -kOpen);
}

std::string WriteDistance(int64_t distance, int64_t open) {
  return distance == open ? "*" : Str("{}", distance);
}

// One rule, from a name and its numbers.
std::optional<MaskRule> ReadRule(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, ':');
  const std::string_view name = parts[0];
  const bool causal = name == "causal" || name == "causal-left";
  const bool window = name == "window";
  if (name == "full" && parts.size() == 1) return MaskRule{};
  if (!causal && !window && name != "band") return std::nullopt;

  const size_t numbers = causal ? 1 : 3;  // names before the prefix
  if (parts.size() < numbers || parts.size() > numbers + 1) return std::nullopt;
  MaskRule rule = name == "causal" ? Causal() : CausalTopLeft();
  if (!causal) {
    const auto first = ReadDistance(parts[1], window ? kOpen : -kOpen);
    const auto second = ReadDistance(parts[2], kOpen);
    if (!first || !second) return std::nullopt;
    rule = window ? Window(*first, *second) : TopLeftBand(*first, *second);
  }
  if (parts.size() > numbers) {
    const auto prefix = ReadWhole(parts[numbers], 0);
    if (!prefix) return std::nullopt;
    rule.band.prefix = *prefix;
  }
  return rule;
}

std::string WriteRule(const MaskRule& rule) {
  const Band& band = rule.band;
  const bool bottom_right = rule.corner == MaskRule::Corner::kBottomRight;
  std::string text;
  if (band.lower == -kOpen && band.upper == 0) {
    text = bottom_right ? "causal" : "causal-left";
  } else if (bottom_right) {
    text = Str("window:{}:{}", WriteDistance(-band.lower, kOpen),
               WriteDistance(band.upper, kOpen));
  } else if (rule == MaskRule{}) {
    return "full";
  } else {
    text = Str("band:{}:{}", WriteDistance(band.lower, -kOpen),
               WriteDistance(band.upper, kOpen));
  }
  return band.prefix == 0 ? text : Str("{}:{}", text, band.prefix);
}

// COUNTxREST, or once REST.
struct Repeated {
  int64_t count;
  std::string_view rest;
};

std::optional<Repeated> ReadRepeated(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789");
  if (digits == 0 || digits >= text.size() || text[digits] != 'x') {
    return Repeated{1, text};
  }
  const auto count = ReadWhole(text.substr(0, digits), 0);
  if (!count || *count > kMaxRepeats) return std::nullopt;
  return Repeated{*count, text.substr(digits + 1)};
}

template <typename T, typename Read>
std::optional<std::vector<T>> ReadList(std::string_view text, Read read) {
  std::vector<T> all;
  for (std::string_view part : Split(text, ',')) {
    const auto repeated = ReadRepeated(part);
    if (!repeated) return std::nullopt;
    const std::optional<T> one = read(repeated->rest);
    if (!one) return std::nullopt;
    if (repeated->count + static_cast<int64_t>(all.size()) > kMaxRepeats) {
      return std::nullopt;
    }
    all.insert(all.end(), static_cast<size_t>(repeated->count), *one);
  }
  return all;
}

template <typename T, typename Write>
std::string WriteList(const std::vector<T>& all, Write write) {
  std::string text;
  for (size_t first = 0; first < all.size();) {
    size_t last = first + 1;
    while (last < all.size() && all[last] == all[first]) ++last;
    if (!text.empty()) text += ',';
    if (last - first > 1) text += Str("{}x", last - first);
    text += write(all[first]);
    first = last;
  }
  return text;
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int64_t> ReadWhole(std::string_view text, int64_t least) {
  int64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  if (value < least || value > kOpen) return std::nullopt;
  return value;
}

std::optional<float> ReadFloat(std::string_view text) {
  float value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string WriteFloat(float value) { return Str("{}", value); }

std::optional<std::vector<int64_t>> ReadLengths(std::string_view text) {
  return ReadList<int64_t>(
      text, [](std::string_view part) { return ReadWhole(part, 0); });
}

std::string WriteLengths(const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return "0x0";
  return WriteList(lengths, [](int64_t length) { return Str("{}", length); });
}

std::optional<std::vector<MaskRule>> ReadRules(std::string_view text) {
  return ReadList<MaskRule>(text, ReadRule);
}

std::string WriteRules(const std::vector<MaskRule>& rules) {
  return WriteList(rules, WriteRule);
}

std::optional<ProblemSpec::Axes> ReadAxes(std::string_view text,
                                          std::string_view last) {
  const auto take = [&text](std::string_view letter) {
    const bool there = text.substr(0, letter.size()) == letter;
    if (there) text.remove_prefix(letter.size());
    return there;
  };
  ProblemSpec::Axes axes;
  if (last.empty() && text == "1") text = "";
  axes.sequence = take("b");
  axes.head = take("h");
  axes.row = take("i") || last.empty();
  if (!take(last) || !text.empty()) return std::nullopt;
  return axes;
}

std::string WriteAxes(const ProblemSpec::Axes& axes, std::string_view last) {
  const std::string text =
      Str("{}{}{}{}", axes.sequence ? "b" : "", axes.head ? "h" : "",
          axes.row && !last.empty() ? "i" : "", last);
  return text.empty() ? "1" : text;
}

std::optional<ProblemSpec::Encoding> ReadEncoding(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, '+');
  const auto* const name =
      std::find(std::begin(kScales), std::end(kScales), parts[0]);
  if (name == std::end(kScales)) return std::nullopt;
  ProblemSpec::Encoding encoding;
  encoding.scales =
      static_cast<ProblemSpec::Scales>(name - std::begin(kScales) + 1);
  encoding.offset = parts.size() == 2 && parts[1] == "offset";
  if (parts.size() > 1 && !encoding.offset) return std::nullopt;
  if (parts.size() > 2) return std::nullopt;
  return encoding;
}

std::string WriteEncoding(const ProblemSpec::Encoding& encoding) {
  return Str("{}{}", kScales[static_cast<size_t>(encoding.scales) - 1],
             encoding.offset ? "+offset" : "");
}

}  // namespace flashacl::notation_fields
