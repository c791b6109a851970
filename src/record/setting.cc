// SPDX-License-Identifier: Apache-2.0
#include "record/setting.h"

#include <charconv>
#include <optional>

#include "base/nearest.h"
#include "base/str.h"

namespace flashacl::record {
namespace {

constexpr std::string_view kWords[] = {"op",  "calls", "every", "failed",
                                       "nan", "stats", "size"};

// Positive, and nothing else in `text`.
std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end || number < 1) return std::nullopt;
  return number;
}

std::optional<int64_t> BytesOf(std::string_view text) {
  int shift = 0;
  if (text.ends_with('K')) shift = 10;
  if (text.ends_with('M')) shift = 20;
  if (text.ends_with('G')) shift = 30;
  if (shift > 0) text.remove_suffix(1);
  const auto number = NumberOf(text);
  if (!number.has_value() || *number > INT64_MAX >> shift) return std::nullopt;
  return *number << shift;
}

Status ReadCalls(std::string_view value, Setting& setting) {
  const size_t dash = value.find('-');
  const auto first = NumberOf(value.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : NumberOf(value.substr(dash + 1));
  if (!first.has_value() || !last.has_value() || *last < *first) {
    return Invalid("calls={}, expected numbers from 1 on, as 3-7", value);
  }
  setting.first = *first;
  setting.last = *last;
  return {};
}

// One filter that has a value.
Status ReadValue(std::string_view word, std::string_view value,
                 Setting& setting) {
  if (word == "op") {
    setting.operations = std::string(value);
    return {};
  }
  if (word == "calls") return ReadCalls(value, setting);
  const auto number = word == "size" ? BytesOf(value) : NumberOf(value);
  if (!number.has_value()) {
    return Invalid("{}={}, expected a positive number{}", word, value,
                   word == "size" ? ", as 500M or 2G" : "");
  }
  (word == "size" ? setting.max_bytes : setting.every) = *number;
  return {};
}

Status ReadFilter(std::string_view filter, Setting& setting) {
  const size_t sign = filter.find('=');
  const std::string_view word = filter.substr(0, sign);
  const bool valued =
      word == "op" || word == "calls" || word == "every" || word == "size";
  if (valued && sign != std::string_view::npos) {
    return ReadValue(word, filter.substr(sign + 1), setting);
  }
  if (filter == "failed") {
    setting.only_failed = true;
  } else if (filter == "nan") {
    setting.only_bad_numbers = true;
  } else if (filter == "stats") {
    setting.statistics_only = true;
  } else {
    return Invalid(
        "\"{}\", expected op=, calls=, every=, failed, nan, stats "
        "or size={}",
        filter, DidYouMean(word, kWords));
  }
  return {};
}

}  // namespace

bool Setting::Wants(std::string_view operation, int64_t number) const {
  return first <= number && number <= last && (number - first) % every == 0 &&
         Matches(operations, operation);
}

Result<Setting> ParseSetting(std::string_view text) {
  Setting setting;
  const size_t colon = text.find(':');
  setting.directory = std::string(text.substr(0, colon));
  if (setting.directory.empty()) return Invalid("no directory is named");
  if (colon == std::string_view::npos) return setting;
  text.remove_prefix(colon + 1);
  while (true) {
    const size_t comma = text.find(',');
    FLASHACL_RETURN_IF_ERROR(ReadFilter(text.substr(0, comma), setting));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return setting;
}

bool Matches(std::string_view glob, std::string_view name) {
  // Where to go on if what follows the last * does not fit here.
  size_t star = std::string_view::npos;
  size_t retry = 0;
  size_t g = 0;
  size_t n = 0;
  while (n < name.size()) {
    if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      retry = n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

}  // namespace flashacl::record
