// SPDX-License-Identifier: Apache-2.0
#include "cpu/pair_dots.h"

#include <atomic>

namespace flashacl::cpu {
namespace {

constexpr int kNobodyChose = -1;
std::atomic<int> chosen{kNobodyChose};

bool IsOfAmd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

}  // namespace

// The compiler's library looked before main: what a thread would look up first
// during a fork, a child would wait for without end.
bool HasPairInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

bool PairDotsPay(bool of_amd, bool has_instruction) {
  return of_amd && has_instruction;
}

PairDots ChoosePairDots(bool has_instruction) {
  const int test = chosen.load(std::memory_order_relaxed);
  if (test != kNobodyChose) return static_cast<PairDots>(test);
  const bool pays = PairDotsPay(IsOfAmd(), HasPairInstruction());
  return has_instruction && pays ? PairDots::kInstruction : PairDots::kNone;
}

void SetPairDotsForTest(std::optional<PairDots> dots) {
  chosen.store(dots ? static_cast<int>(*dots) : kNobodyChose);
}

}  // namespace flashacl::cpu
