// SPDX-License-Identifier: Apache-2.0
#include "cpu/half_dots.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <atomic>

namespace flashacl::cpu {
namespace {

enum class HalfChoice : int { kNone, kFloats, kHalves };
std::atomic<HalfChoice> chosen_half_dots{HalfChoice::kNone};

}  // namespace

bool HasHalfInstruction() {
#if defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kHalfProducts = 1ul << 23;  // HWCAP_ASIMDFHM
  return (getauxval(AT_HWCAP) & kHalfProducts) != 0;
#else
  return false;
#endif
}

bool ChooseHalfDots(bool has_instruction) {
  const HalfChoice test = chosen_half_dots.load(std::memory_order_relaxed);
  const bool wanted = test == HalfChoice::kNone ? HasHalfInstruction()
                                                : test == HalfChoice::kHalves;
  return has_instruction && wanted;
}

void SetHalfDotsForTest(std::optional<bool> dots) {
  chosen_half_dots.store(!dots   ? HalfChoice::kNone
                         : *dots ? HalfChoice::kHalves
                                 : HalfChoice::kFloats);
}

}  // namespace flashacl::cpu
