// SPDX-License-Identifier: Apache-2.0
// FLASHACL_DCHECK states what must be true if our code is right. It traps in
// debug, sanitizer and fuzz builds and vanishes in release.
#pragma once

#ifdef FLASHACL_DCHECKS
#define FLASHACL_DCHECK(condition)      \
  do {                                  \
    if (!(condition)) __builtin_trap(); \
  } while (false)
#else
#define FLASHACL_DCHECK(condition) \
  do {                             \
    if (false) (void)(condition);  \
  } while (false)
#endif
