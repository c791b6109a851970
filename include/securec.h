// SPDX-License-Identifier: Apache-2.0
//
// Memory and string functions that know the size of their destination. They
// never write past `destMax` bytes, and on an error they leave an empty string
// or zeros after where that is safe. Source: Huawei securec library.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#ifndef EOK
#define EOK 0
#endif
#ifndef EINVAL
#define EINVAL 22
#endif
#ifndef ERANGE
#define ERANGE 34
#endif
// The destination has been made empty besides.
#ifndef EINVAL_AND_RESET
#define EINVAL_AND_RESET 150
#define ERANGE_AND_RESET 162
#define EOVERLAP_AND_RESET 182
#endif

#define SECUREC_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef int errno_t;

// Copies or sets `count` bytes. EOK; ERANGE: destMax is 0 or too large to be
// true; EINVAL: null dest; EINVAL_AND_RESET: null src; ERANGE_AND_RESET: count
// > destMax, dest is zeroed; EOVERLAP_AND_RESET: memcpy_s on overlapping
// memory.
SECUREC_EXPORT errno_t memcpy_s(void* dest, size_t destMax, const void* src,
                                size_t count);
SECUREC_EXPORT errno_t memmove_s(void* dest, size_t destMax, const void* src,
                                 size_t count);
SECUREC_EXPORT errno_t memset_s(void* dest, size_t destMax, int c,
                                size_t count);

// Copies or appends a string, or at most `count` characters of it, and always
// ends it. Errors as above, where "too long" counts the final NUL.
SECUREC_EXPORT errno_t strcpy_s(char* strDest, size_t destMax,
                                const char* strSrc);
SECUREC_EXPORT errno_t strncpy_s(char* strDest, size_t destMax,
                                 const char* strSrc, size_t count);
SECUREC_EXPORT errno_t strcat_s(char* strDest, size_t destMax,
                                const char* strSrc);
SECUREC_EXPORT errno_t strncat_s(char* strDest, size_t destMax,
                                 const char* strSrc, size_t count);

// strtok with its state in *context. Null when there are no more tokens.
SECUREC_EXPORT char* strtok_s(char* strToken, const char* strDelimit,
                              char** context);

// Characters written without the final NUL, or -1 on any error, also when the
// text does not fit; then the destination is empty. With `count`, longer text
// is cut to that many characters and -1 returned.
SECUREC_EXPORT int sprintf_s(char* strDest, size_t destMax, const char* format,
                             ...);
SECUREC_EXPORT int snprintf_s(char* strDest, size_t destMax, size_t count,
                              const char* format, ...);
SECUREC_EXPORT int vsprintf_s(char* strDest, size_t destMax, const char* format,
                              va_list argList);
SECUREC_EXPORT int vsnprintf_s(char* strDest, size_t destMax, size_t count,
                               const char* format, va_list argList);

// Items read, or -1. %s, %c and %[ take the size of their buffer as a further
// argument after it.
SECUREC_EXPORT int sscanf_s(const char* buffer, const char* format, ...);

#ifdef __cplusplus
}
#endif
