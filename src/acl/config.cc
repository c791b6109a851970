// SPDX-License-Identifier: Apache-2.0
#include "acl/config.h"

#include <charconv>
#include <string>
#include <utility>
#include <vector>

namespace flashacl::acl {
namespace {

// Checks one JSON text and notes its scalar values that are not in arrays, as
// ("outer.inner", text) with strings unquoted.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : rest_(text) {}

  bool ReadObjectText() {
    SkipSpace();
    if (rest_.empty() || rest_.front() != '{') return false;
    if (!ReadValue("")) return false;
    SkipSpace();
    return rest_.empty();
  }

  const std::vector<std::pair<std::string, std::string>>& values() const {
    return values_;
  }

 private:
  static constexpr int kDeepest = 64;

  void SkipSpace() {
    const size_t n = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(n == std::string_view::npos ? rest_.size() : n);
  }

  bool Take(std::string_view text) {
    if (rest_.substr(0, text.size()) != text) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  bool ReadValue(const std::string& path) {
    SkipSpace();
    if (rest_.empty() || depth_ == kDeepest) return false;
    ++depth_;
    const bool good = ReadAnyValue(path);
    --depth_;
    return good;
  }

  bool ReadAnyValue(const std::string& path) {
    if (rest_.front() == '{') return ReadMembers(path);
    if (rest_.front() == '[') return ReadElements();
    std::string scalar;
    if (rest_.front() == '"') {
      if (!ReadString(&scalar)) return false;
    } else if (Take("true") || Take("false") || Take("null")) {
      // None of our keys is one of these.
    } else if (!ReadNumber(&scalar)) {
      return false;
    }
    if (arrays_ == 0) values_.emplace_back(path, std::move(scalar));
    return true;
  }

  bool ReadMembers(const std::string& path) {
    Take("{");
    SkipSpace();
    if (Take("}")) return true;
    for (;;) {
      std::string key;
      SkipSpace();
      if (!ReadString(&key)) return false;
      SkipSpace();
      if (!Take(":")) return false;
      if (!ReadValue(path.empty() ? key : path + "." + key)) return false;
      SkipSpace();
      if (Take("}")) return true;
      if (!Take(",")) return false;
    }
  }

  bool ReadElements() {
    Take("[");
    SkipSpace();
    if (Take("]")) return true;
    ++arrays_;
    for (;;) {
      if (!ReadValue("")) return false;
      SkipSpace();
      if (Take("]")) break;
      if (!Take(",")) return false;
    }
    --arrays_;
    return true;
  }

  // Escapes are checked and kept as they are: our keys and values have none.
  bool ReadString(std::string* out) {
    if (!Take("\"")) return false;
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (Take("\"")) return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      const size_t size = c == '\\' ? EscapeSize() : 1;
      if (size == 0) return false;
      *out += rest_.substr(0, size);
      rest_.remove_prefix(size);
    }
    return false;
  }

  // Bytes of the escape at the front; 0 if it is none.
  size_t EscapeSize() const {
    if (rest_.size() < 2) return 0;
    if (rest_[1] != 'u') {
      return std::string_view("\"\\/bfnrt").find(rest_[1]) ==
                     std::string_view::npos
                 ? 0
                 : 2;
    }
    constexpr std::string_view kHex = "0123456789abcdefABCDEF";
    if (rest_.size() < 6) return 0;
    const bool hex =
        rest_.substr(2, 4).find_first_not_of(kHex) == std::string_view::npos;
    return hex ? 6 : 0;
  }

  size_t CountDigits(size_t at) const {
    size_t n = 0;
    while (at + n < rest_.size() && '0' <= rest_[at + n] &&
           rest_[at + n] <= '9') {
      ++n;
    }
    return n;
  }

  bool ReadNumber(std::string* out) {
    size_t n = rest_.front() == '-' ? 1 : 0;
    const size_t whole = CountDigits(n);
    if (whole == 0 || (whole > 1 && rest_[n] == '0')) return false;
    n += whole;
    if (n < rest_.size() && rest_[n] == '.') {
      const size_t fraction = CountDigits(n + 1);
      if (fraction == 0) return false;
      n += 1 + fraction;
    }
    if (n < rest_.size() && (rest_[n] == 'e' || rest_[n] == 'E')) {
      ++n;
      if (n < rest_.size() && (rest_[n] == '+' || rest_[n] == '-')) ++n;
      const size_t exponent = CountDigits(n);
      if (exponent == 0) return false;
      n += exponent;
    }
    *out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return true;
  }

  std::string_view rest_;
  int depth_ = 0;
  int arrays_ = 0;  // how many arrays we are in
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace

Result<Config> ParseConfig(std::string_view text) {
  JsonReader reader(text);
  if (!reader.ReadObjectText()) {
    return Invalid("the configuration is not a JSON object");
  }
  Config config;
  for (const auto& [key, value] : reader.values()) {
    if (key == "err_msg_mode") config.process_messages = value == "1";
    if (key == "defaultDevice.default_device") {
      int id = -1;
      const char* const end = value.data() + value.size();
      const auto [next, error] = std::from_chars(value.data(), end, id);
      const bool good = error == std::errc() && next == end && id >= 0;
      if (good) config.default_device = id;
    }
  }
  return config;
}

}  // namespace flashacl::acl
