// SPDX-License-Identifier: Apache-2.0
// sscanf_s: scanf whose %s, %c and %[ know the size of their buffer. The C
// library scans into copies that have room for everything; what fits is then
// handed over.
#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "securec.h"

namespace {

constexpr int kMaxConversions = 32;
constexpr size_t kWidest = 1 << 20;

// One conversion that stores something.
struct Conversion {
  void* target = nullptr;  // the caller's
  char* copy = nullptr;    // of text; null for numbers, which need none
  size_t size = 0;         // of the caller's buffer
  size_t width = 0;        // %c: characters it takes
  bool ends = false;       // with a NUL: %s and %[
  bool counts = true;      // in the result: all but %n
};

struct Scan {
  Conversion conversions[kMaxConversions];
  int count = 0;

  Scan() = default;
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;
  ~Scan() {
    for (int i = 0; i < count; ++i) std::free(conversions[i].copy);
  }
};

// One directive of a format, from after its '%'.
struct Directive {
  const char* end = nullptr;  // after it
  char letter = '\0';
  bool stores = true;
  bool is_long = false;
  size_t width = 0;  // 0: none given
};

const char* SkipSet(const char* at) {
  if (*at == '^') ++at;
  if (*at == ']') ++at;  // stands for itself here
  while (*at != '\0' && *at != ']') ++at;
  return at;
}

// False if the format is broken, or asks for what cannot be bounded.
bool Parse(const char* at, Directive* directive) {
  if (*at == '*') {
    directive->stores = false;
    ++at;
  }
  while (std::isdigit(static_cast<unsigned char>(*at)) != 0) {
    directive->width = directive->width * 10 + static_cast<size_t>(*at - '0');
    if (directive->width > kWidest) return false;
    ++at;
  }
  while (*at != '\0' && std::strchr("hlLqjzt", *at) != nullptr) {
    directive->is_long = directive->is_long || *at == 'l';
    ++at;
  }
  directive->letter = *at;
  if (*at == '[') at = SkipSet(at + 1);
  if (*at == '\0' || *at == '$' || *at == 'm') return false;
  const bool wide =
      *at == 'S' || *at == 'C' ||
      (directive->is_long && std::strchr("sc[", directive->letter) != nullptr);
  directive->end = at + 1;
  return !wide;
}

bool IsText(char letter) { return std::strchr("sc[", letter) != nullptr; }

// Takes the directive's arguments off `arguments`, which the caller keeps
// reading from.
bool TakeValue(const Directive& directive, size_t longest, va_list* arguments,
               Scan* scan) {
  if (scan->count == kMaxConversions) return false;
  Conversion& conversion = scan->conversions[scan->count];
  conversion.target = va_arg(*arguments, void*);
  if (conversion.target == nullptr) return false;
  conversion.counts = directive.letter != 'n';
  ++scan->count;
  if (!IsText(directive.letter)) return true;
  // Callers pass an int, an unsigned or a size_t; all agree in the low half.
  conversion.size = va_arg(*arguments, unsigned int);
  conversion.ends = directive.letter != 'c';
  conversion.width = std::min(std::max<size_t>(directive.width, 1), longest);
  // A checker of memory expects room for the whole width, filled or not.
  const size_t room = std::max(longest, directive.width) + 1;
  conversion.copy = static_cast<char*>(std::calloc(room, 1));
  return conversion.copy != nullptr;
}

bool Prepare(const char* format, size_t longest, va_list* arguments,
             Scan* scan) {
  for (const char* at = format; *at != '\0';) {
    if (*at++ != '%') continue;
    if (*at == '%') {
      ++at;
      continue;
    }
    Directive directive;
    if (!Parse(at, &directive)) return false;
    if (directive.stores && !TakeValue(directive, longest, arguments, scan)) {
      return false;
    }
    at = directive.end;
  }
  return true;
}

// False if the text does not fit, which leaves an empty string behind.
bool HandOver(const Conversion& conversion) {
  if (conversion.copy == nullptr) return true;
  char* const target = static_cast<char*>(conversion.target);
  const size_t bytes =
      conversion.ends ? std::strlen(conversion.copy) + 1 : conversion.width;
  if (bytes > conversion.size) {
    if (conversion.size > 0) target[0] = '\0';
    return false;
  }
  std::memcpy(target, conversion.copy, bytes);
  return true;
}

int ScanBuffer(const char* buffer, const char* format, const Scan& scan) {
  void* to[kMaxConversions] = {};
  for (int i = 0; i < scan.count; ++i) {
    const Conversion& conversion = scan.conversions[i];
    to[i] = conversion.copy != nullptr ? conversion.copy : conversion.target;
  }
  return std::sscanf(buffer, format, to[0], to[1], to[2], to[3], to[4], to[5],
                     to[6], to[7], to[8], to[9], to[10], to[11], to[12], to[13],
                     to[14], to[15], to[16], to[17], to[18], to[19], to[20],
                     to[21], to[22], to[23], to[24], to[25], to[26], to[27],
                     to[28], to[29], to[30], to[31]);
}

}  // namespace

extern "C" int sscanf_s(const char* buffer, const char* format, ...) {
  if (buffer == nullptr || format == nullptr) return -1;
  Scan scan;
  va_list arguments;
  va_start(arguments, format);
  const bool ready = Prepare(format, std::strlen(buffer), &arguments, &scan);
  va_end(arguments);
  if (!ready) return -1;
  const int read = ScanBuffer(buffer, format, scan);
  int handed = 0;
  for (int i = 0; i < scan.count && handed < read; ++i) {
    if (!HandOver(scan.conversions[i])) return handed;
    if (scan.conversions[i].counts) ++handed;
  }
  return read;
}
