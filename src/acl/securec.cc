// SPDX-License-Identifier: Apache-2.0
// The bounded memory and string functions programs link from libc_sec. They
// report by their own numbers and know nothing of the runtime.
#include "securec.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

// A size beyond this is taken for a negative number gone unsigned.
constexpr size_t kLargestSize = 0x7FFFFFFF;

bool BadSize(size_t dest_max) {
  return dest_max == 0 || dest_max > kLargestSize;
}

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(a);
  const uintptr_t second = reinterpret_cast<uintptr_t>(b);
  return first < second ? second - first < a_bytes : first - second < b_bytes;
}

errno_t CheckCopy(void* dest, size_t dest_max, const void* src, size_t count) {
  if (BadSize(dest_max)) return ERANGE;
  if (dest == nullptr) return EINVAL;
  if (src == nullptr) {
    std::memset(dest, 0, dest_max);
    return EINVAL_AND_RESET;
  }
  if (count > dest_max) {
    std::memset(dest, 0, dest_max);
    return ERANGE_AND_RESET;
  }
  return EOK;
}

// Puts `length` characters of `src` and a NUL at offset `at` of `dest`, which
// becomes empty if that is not possible.
errno_t PutString(char* dest, size_t dest_max, size_t at, const char* src,
                  size_t length) {
  if (length >= dest_max - at) {
    dest[0] = '\0';
    return ERANGE_AND_RESET;
  }
  if (Overlap(dest, at + length + 1, src, length + 1)) {
    dest[0] = '\0';
    return EOVERLAP_AND_RESET;
  }
  std::memcpy(dest + at, src, length);
  dest[at + length] = '\0';
  return EOK;
}

errno_t CheckStrings(char* dest, size_t dest_max, const char* src) {
  if (BadSize(dest_max)) return ERANGE;
  if (dest == nullptr) return EINVAL;
  if (src == nullptr) {
    dest[0] = '\0';
    return EINVAL_AND_RESET;
  }
  return EOK;
}

errno_t CopyText(char* dest, size_t dest_max, const char* src, size_t count) {
  const errno_t error = CheckStrings(dest, dest_max, src);
  if (error != EOK) return error;
  if (count > kLargestSize) {
    dest[0] = '\0';
    return ERANGE_AND_RESET;
  }
  const size_t length = strnlen(src, count);
  if (dest == src && length < dest_max) {
    dest[length] = '\0';
    return EOK;
  }
  return PutString(dest, dest_max, 0, src, length);
}

errno_t AppendText(char* dest, size_t dest_max, const char* src, size_t count) {
  const errno_t error = CheckStrings(dest, dest_max, src);
  if (error != EOK) return error;
  if (count > kLargestSize) {
    dest[0] = '\0';
    return ERANGE_AND_RESET;
  }
  const size_t at = strnlen(dest, dest_max);
  if (at == dest_max) {  // not a string
    dest[0] = '\0';
    return EINVAL_AND_RESET;
  }
  return PutString(dest, dest_max, at, src, strnlen(src, count));
}

}  // namespace

extern "C" {

errno_t memcpy_s(void* dest, size_t destMax, const void* src, size_t count) {
  const errno_t error = CheckCopy(dest, destMax, src, count);
  if (error != EOK || dest == src || count == 0) return error;
  if (Overlap(dest, count, src, count)) {
    std::memset(dest, 0, destMax);
    return EOVERLAP_AND_RESET;
  }
  std::memcpy(dest, src, count);
  return EOK;
}

errno_t memmove_s(void* dest, size_t destMax, const void* src, size_t count) {
  const errno_t error = CheckCopy(dest, destMax, src, count);
  if (error == EOK && count > 0) std::memmove(dest, src, count);
  return error;
}

errno_t memset_s(void* dest, size_t destMax, int c, size_t count) {
  if (BadSize(destMax)) return ERANGE;
  if (dest == nullptr) return EINVAL;
  std::memset(dest, c, std::min(count, destMax));
  return count > destMax ? ERANGE_AND_RESET : EOK;
}

errno_t strcpy_s(char* strDest, size_t destMax, const char* strSrc) {
  return CopyText(strDest, destMax, strSrc, kLargestSize);
}

errno_t strncpy_s(char* strDest, size_t destMax, const char* strSrc,
                  size_t count) {
  return CopyText(strDest, destMax, strSrc, count);
}

errno_t strcat_s(char* strDest, size_t destMax, const char* strSrc) {
  return AppendText(strDest, destMax, strSrc, kLargestSize);
}

errno_t strncat_s(char* strDest, size_t destMax, const char* strSrc,
                  size_t count) {
  return AppendText(strDest, destMax, strSrc, count);
}

char* strtok_s(char* strToken, const char* strDelimit, char** context) {
  if (strDelimit == nullptr || context == nullptr) return nullptr;
  if (strToken == nullptr && *context == nullptr) return nullptr;
  return strtok_r(strToken, strDelimit, context);
}

int vsnprintf_s(char* strDest, size_t destMax, size_t count, const char* format,
                va_list argList) {
  if (strDest == nullptr || BadSize(destMax)) return -1;
  const bool cut = count < destMax || count == SIZE_MAX;
  if (format == nullptr || (count > kLargestSize && count != SIZE_MAX)) {
    strDest[0] = '\0';
    return -1;
  }
  const size_t room = cut ? std::min(count, destMax - 1) + 1 : destMax;
  const int length = vsnprintf(strDest, room, format, argList);
  if (length >= 0 && static_cast<size_t>(length) < room) return length;
  if (length < 0 || !cut) strDest[0] = '\0';
  return -1;
}

int vsprintf_s(char* strDest, size_t destMax, const char* format,
               va_list argList) {
  if (strDest == nullptr || BadSize(destMax)) return -1;
  return vsnprintf_s(strDest, destMax, destMax, format, argList);
}

int snprintf_s(char* strDest, size_t destMax, size_t count, const char* format,
               ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf_s(strDest, destMax, count, format, arguments);
  va_end(arguments);
  return length;
}

int sprintf_s(char* strDest, size_t destMax, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vsprintf_s(strDest, destMax, format, arguments);
  va_end(arguments);
  return length;
}

}  // extern "C"
