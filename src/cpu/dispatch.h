// SPDX-License-Identifier: Apache-2.0
// Takes the vector code of the best instruction set here: FLASHACL_EXPORT and
// FLASHACL_DISPATCH are HWY_EXPORT and HWY_DYNAMIC_DISPATCH that also know the
// code that is compiled for one width of SVE, from sources of its own
// (cmake/sve.cmake).
#pragma once

#include <cstdint>
#include <string>

#include "cpu/targets.h"
#include "hwy/targets.h"

namespace flashacl::cpu {

// All that vector code is compiled for, as Highway's bits. Not inline: sources
// for SVE see other HWY_TARGETS.
constexpr int64_t kCompiledTargets = HWY_TARGETS | FLASHACL_SVE_TARGETS;

// Those of them that this processor has. HWY_SVE is of any width, our code for
// it of 512 bits.
int64_t TargetsHere();

// All of this processor's, as Highway says, which detects them anew, or on ARM
// as Linux says: Highway finds NEON only beside AES, which nothing here takes
// and A64FX lacks, and otherwise prints a warning whenever it is asked.
int64_t DetectTargets();

// The best of TargetsHere(): the lowest bit. 0 if there is none.
inline int64_t BestTarget() {
  const int64_t targets = TargetsHere();
  return targets & -targets;
}

// As Highway says, and SVE_512 for HWY_SVE.
std::string TargetName(int64_t target);

}  // namespace flashacl::cpu

// Once in a program's sources of each kernel, and not in those for SVE.
#define FLASHACL_ONCE (HWY_ONCE && !FLASHACL_SVE_BITS)

#if FLASHACL_SVE_TARGETS
// TABLE() returns KERNELS, in this namespace and that of each target.
#define FLASHACL_EXPORT(KERNELS, TABLE) \
  namespace N_SVE2_128 {                \
  KERNELS TABLE();                      \
  }                                     \
  namespace N_SVE_256 {                 \
  KERNELS TABLE();                      \
  }                                     \
  namespace N_SVE {                     \
  KERNELS TABLE();                      \
  }                                     \
  HWY_EXPORT(TABLE)

#if FLASHACL_SVE_TARGETS & HWY_SVE2_128
#define FLASHACL_SVE_128(TABLE) best == HWY_SVE2_128 ? N_SVE2_128::TABLE():
#else
#define FLASHACL_SVE_128(TABLE)
#endif
#if FLASHACL_SVE_TARGETS & HWY_SVE_256
#define FLASHACL_SVE_256(TABLE) best == HWY_SVE_256 ? N_SVE_256::TABLE():
#else
#define FLASHACL_SVE_256(TABLE)
#endif
#if FLASHACL_SVE_TARGETS & HWY_SVE
#define FLASHACL_SVE_512(TABLE) best == HWY_SVE ? N_SVE::TABLE():
#else
#define FLASHACL_SVE_512(TABLE)
#endif
#define FLASHACL_DISPATCH(TABLE)                               \
  [](int64_t best) {                                           \
    return FLASHACL_SVE_128(TABLE) FLASHACL_SVE_256(TABLE)     \
        FLASHACL_SVE_512(TABLE) HWY_DYNAMIC_DISPATCH(TABLE)(); \
  }(flashacl::cpu::BestTarget())
#else
#define FLASHACL_EXPORT(KERNELS, TABLE) HWY_EXPORT(TABLE)
#define FLASHACL_DISPATCH(TABLE) HWY_DYNAMIC_DISPATCH(TABLE)()
#endif
