// SPDX-License-Identifier: Apache-2.0
#include "cpu/pair_dots.h"

#include <atomic>

namespace flashacl::cpu {
namespace {

constexpr int kNobodyChose = -1;
std::atomic<int> chosen{kNobodyChose};

// Its vdpbf16ps takes no longer than a multiply-add. Of Intel's it took four
// times as long, as they have AMX for such products.
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

PairDots ChoosePairDots(bool has_instruction) {
  const int test = chosen.load(std::memory_order_relaxed);
  if (test != kNobodyChose) return static_cast<PairDots>(test);
  const bool pays = HasPairInstruction() && IsOfAmd();
  return has_instruction && pays ? PairDots::kInstruction : PairDots::kNone;
}

void SetPairDotsForTest(std::optional<PairDots> dots) {
  chosen.store(dots ? static_cast<int>(*dots) : kNobodyChose);
}

}  // namespace flashacl::cpu
