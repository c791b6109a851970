// SPDX-License-Identifier: Apache-2.0
#include "cpu/pair_dots.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <atomic>

namespace flashacl::cpu {
namespace {

constexpr int kNobodyChose = -1;
std::atomic<int> chosen{kNobodyChose};

// Linux gives them to processes that ask; it refuses where a stack for signals
// is too small.
bool AskForMatrices() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int kAskFor = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  if ((d & kBf16) == 0 || (d & kTiles) == 0) return false;
  return syscall(SYS_arch_prctl, kAskFor, kTileData) == 0;
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
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kBf16 = 1ul << 14;  // HWCAP2_BF16; older headers lack
  return (getauxval(AT_HWCAP2) & kBf16) != 0;
#else
  return false;
#endif
}

bool HasMatrices() {
  // No static of this function: its guard could be held during a fork.
  static std::atomic<int> answer{-1};
  int known = answer.load(std::memory_order_relaxed);
  if (known < 0) {
    known = AskForMatrices() ? 1 : 0;
    answer.store(known, std::memory_order_relaxed);
  }
  return known != 0;
}

bool PairDotsPay(ProcessorKind kind, bool has_instruction) {
  return has_instruction && kind != ProcessorKind::kOther;
}

PairDots ChoosePairDots(bool has_instruction, MatrixCode matrices) {
  const int test = chosen.load(std::memory_order_relaxed);
  if (test != kNobodyChose) {
    const auto dots = static_cast<PairDots>(test);
    const bool can = dots != PairDots::kMatrices ||
                     matrices == MatrixCode::kEmulated ||
                     (matrices == MatrixCode::kInstructions && HasMatrices());
    return can ? dots : PairDots::kNone;
  }
  if (matrices == MatrixCode::kInstructions && HasMatrices()) {
    return PairDots::kMatrices;
  }
  const bool pays = PairDotsPay(kProcessorKind, HasPairInstruction());
  return has_instruction && pays ? PairDots::kInstruction : PairDots::kNone;
}

void SetPairDotsForTest(std::optional<PairDots> dots) {
  chosen.store(dots ? static_cast<int>(*dots) : kNobodyChose);
}

}  // namespace flashacl::cpu
