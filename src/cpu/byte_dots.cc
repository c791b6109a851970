// SPDX-License-Identifier: Apache-2.0
#include "cpu/byte_dots.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <atomic>

namespace flashacl::cpu {
namespace {

constexpr int kNoByteDots = -1;
std::atomic<int> chosen_byte_dots{kNoByteDots};

bool MultipliesBytesOnMatrices() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kInt8 = 1u << 25;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kInt8) != 0;
#else
  return false;
#endif
}

}  // namespace

// As HasPairInstruction.
bool HasByteInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni") != 0;
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kDotProducts = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProducts) != 0;
#else
  return false;
#endif
}

bool HasByteTwoByTwo() {
#if defined(__aarch64__) && defined(__linux__)
  // HWCAP2_I8MM; where a processor has SVE, too, it has both encodings or none.
  constexpr unsigned long kInt8Matrices = 1ul << 13;
  return (getauxval(AT_HWCAP2) & kInt8Matrices) != 0;
#else
  return false;
#endif
}

// A hypervisor answers this instruction, which takes microseconds: once.
bool HasByteMatrices() {
  static std::atomic<int> answer{-1};
  int known = answer.load(std::memory_order_relaxed);
  if (known < 0) {
    known = MultipliesBytesOnMatrices() && HasMatrices() ? 1 : 0;
    answer.store(known, std::memory_order_relaxed);
  }
  return known != 0;
}

ByteDots ChooseByteDots(bool has_instruction, MatrixCode matrices) {
  const bool on_matrices =
      matrices == MatrixCode::kInstructions && HasByteMatrices();
  const int test = chosen_byte_dots.load(std::memory_order_relaxed);
  if (test != kNoByteDots) {
    const auto dots = static_cast<ByteDots>(test);
    const bool can = dots != ByteDots::kMatrices || on_matrices ||
                     matrices == MatrixCode::kEmulated;
    return can ? dots : ByteDots::kNone;
  }
  if (on_matrices) return ByteDots::kMatrices;
  if (!has_instruction || !HasByteInstruction()) return ByteDots::kNone;
  return HasByteTwoByTwo() ? ByteDots::kTwoByTwo : ByteDots::kInstruction;
}

void SetByteDotsForTest(std::optional<ByteDots> dots) {
  chosen_byte_dots.store(dots ? static_cast<int>(*dots) : kNoByteDots);
}

}  // namespace flashacl::cpu
