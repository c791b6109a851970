// SPDX-License-Identifier: Apache-2.0
#include "cpu/byte_dots.h"

#include <atomic>

namespace flashacl::cpu {
namespace {

constexpr int kNoByteDots = -1;
std::atomic<int> chosen_byte_dots{kNoByteDots};

}  // namespace

// As HasPairInstruction.
bool HasByteInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

ByteDots ChooseByteDots(bool has_instruction) {
  const int test = chosen_byte_dots.load(std::memory_order_relaxed);
  if (test != kNoByteDots) return static_cast<ByteDots>(test);
  return has_instruction && HasByteInstruction() ? ByteDots::kInstruction
                                                 : ByteDots::kNone;
}

void SetByteDotsForTest(std::optional<ByteDots> dots) {
  chosen_byte_dots.store(dots ? static_cast<int>(*dots) : kNoByteDots);
}

}  // namespace flashacl::cpu
