// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch.h"

#if FLASHACL_SVE_TARGETS
#include <sys/auxv.h>
#include <sys/prctl.h>

#include <atomic>
#endif

namespace flashacl::cpu {
namespace {

#if FLASHACL_SVE_TARGETS
// Of this thread's vectors, which others inherit; 0 without SVE. No static of
// this function: its guard could be held during a fork.
int SveBits() {
  static std::atomic<int> answer{-1};
  int known = answer.load(std::memory_order_relaxed);
  if (known < 0) {
    const int length = prctl(PR_SVE_GET_VL);
    known = length < 0 ? 0 : (length & PR_SVE_VL_LEN_MASK) * 8;
    answer.store(known, std::memory_order_relaxed);
  }
  return known;
}

// By the width of its vectors; 0: none.
int64_t SveTarget() {
  constexpr unsigned long kSve2 = 1ul << 1;  // HWCAP2_SVE2
  switch (SveBits()) {
    case 128:
      return (getauxval(AT_HWCAP2) & kSve2) != 0 ? HWY_SVE2_128 : 0;
    case 256:
      return HWY_SVE_256;
    case 512:
      return HWY_SVE;
    default:
      return 0;
  }
}
#endif

}  // namespace

int64_t DetectTargets() {
#if FLASHACL_SVE_TARGETS
  return HWY_NEON | SveTarget();
#elif HWY_ARCH_ARM_A64
  return HWY_NEON;
#else
  hwy::SetSupportedTargetsForTest(0);
  return hwy::SupportedTargets();
#endif
}

int64_t TargetsHere() {
  int64_t targets = hwy::SupportedTargets() & kCompiledTargets;
#if FLASHACL_SVE_TARGETS
  if (SveBits() != 512) targets &= ~int64_t{HWY_SVE};
#endif
  return targets;
}

std::string TargetName(int64_t target) {
#if FLASHACL_SVE_TARGETS
  if (target == HWY_SVE) return "SVE_512";
#endif
  return hwy::TargetName(target);
}

}  // namespace flashacl::cpu
