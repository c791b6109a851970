// SPDX-License-Identifier: Apache-2.0
#include "record/npy.h"

#include <charconv>

#include "base/str.h"

namespace flashacl::record {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};
constexpr size_t kPrefix = kMagic.size() + 2;  // and the header's length
constexpr size_t kAlignment = 64;

// Takes `words` from the front of `text`; false if it begins otherwise.
bool Take(std::string_view& text, std::string_view words) {
  if (!text.starts_with(words)) return false;
  text.remove_prefix(words.size());
  return true;
}

}  // namespace

std::string NpyHeader(std::string_view type, int64_t count) {
  std::string words =
      Str("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", type,
          count);
  const size_t used = kPrefix + words.size() + 1;
  words.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  words += '\n';
  std::string header(kMagic);
  header += static_cast<char>(words.size() & 0xFF);
  header += static_cast<char>(words.size() >> 8);
  return header + words;
}

Result<NpyData> ParseNpyHeader(std::string_view file) {
  if (file.size() < kPrefix || !file.starts_with(kMagic)) {
    return Invalid("no .npy file of format 1.0");
  }
  const size_t length =
      static_cast<uint8_t>(file[kMagic.size()]) +
      size_t{256} * static_cast<uint8_t>(file[kMagic.size() + 1]);
  if (file.size() - kPrefix < length) return Invalid("its header is cut off");
  std::string_view words = file.substr(kPrefix, length);
  NpyData data;
  data.offset = kPrefix + length;
  const Status other = Invalid("a header that FlashACL does not write");
  if (!Take(words, "{'descr': '")) return other;
  const size_t end = words.find('\'');
  if (end == std::string_view::npos) return other;
  data.type = std::string(words.substr(0, end));
  words.remove_prefix(end);
  if (!Take(words, "', 'fortran_order': False, 'shape': (")) return other;
  const auto [rest, error] =
      std::from_chars(words.data(), words.data() + words.size(), data.count);
  if (error != std::errc{} || data.count < 0) return other;
  words.remove_prefix(static_cast<size_t>(rest - words.data()));
  if (!Take(words, ",), }")) return other;
  return data;
}

}  // namespace flashacl::record
