// SPDX-License-Identifier: Apache-2.0
// Which instruction sets vector code is compiled for; included before Highway.
#pragma once

// Generated: defines FLASHACL_ONE_TARGET as Highway's name of a target where
// vector code is for that alone (cmake/targets.cmake), and FLASHACL_SVE_TARGETS
// as those of the widths of SVE that it is for, too (cmake/sve.cmake).
#include "flashacl_sve.h"
#include "flashacl_targets.h"

// Sources for one width of SVE (cmake/sve.cmake): nothing else. 512 bits have
// no target of their own.
#if FLASHACL_SVE_BITS == 512
#define FLASHACL_ONE_TARGET HWY_SVE
#elif FLASHACL_SVE_BITS == 256
#define FLASHACL_ONE_TARGET HWY_SVE_256
#elif FLASHACL_SVE_BITS == 128
#define FLASHACL_ONE_TARGET HWY_SVE2_128
#endif

// One portable set, and the two steps that widen vectors. What lies between
// them adds nothing that attention uses, and each costs its compile time. On
// ARM, NEON, and SVE from sources of their own, as a width is an option of a
// whole file.
#if defined(FLASHACL_ONE_TARGET)
#define HWY_BASELINE_TARGETS FLASHACL_ONE_TARGET
#elif defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#define FLASHACL_UNUSED_TARGETS                                                \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | \
   FLASHACL_UNUSED_NEWER_TARGETS)
// AVX3_SPR and AVX3_ZEN4, which Highway 1.0.3 has no names for. Where they were
// compiled, too, processors ran their code, which has neither pairs nor matrix
// registers: those are AVX3's.
#if defined(__x86_64__)
#define FLASHACL_UNUSED_NEWER_TARGETS ((1LL << 4) | (1LL << 6))
#else
#define FLASHACL_UNUSED_NEWER_TARGETS 0
#endif
#if defined(FLASHACL_ONE_TARGET)
#define HWY_DISABLED_TARGETS (~FLASHACL_ONE_TARGET)
#elif defined(FLASHACL_TWO_WIDTHS)
// The everyday build: the third width took a third of what vector code takes to
// compile.
#define HWY_DISABLED_TARGETS (FLASHACL_UNUSED_TARGETS | HWY_AVX3)
#else
#define HWY_DISABLED_TARGETS FLASHACL_UNUSED_TARGETS
#endif
