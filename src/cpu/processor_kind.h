// SPDX-License-Identifier: Apache-2.0
// Whose processor this is, for choices that were measured on each kind.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdint>

namespace flashacl::cpu {

enum class ProcessorKind : uint8_t { kOther, kAmd, kArm };

// All are looked up before main: what a thread would look up first during a
// fork, a child would wait for without end.
#if defined(__x86_64__)
inline ProcessorKind FindProcessorKind() {
  __builtin_cpu_init();  // nobody else may have, before main
  return __builtin_cpu_is("amd") ? ProcessorKind::kAmd : ProcessorKind::kOther;
}

inline int FindAmdFamily() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (FindProcessorKind() != ProcessorKind::kAmd) return 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return 0;
  return static_cast<int>((a >> 8 & 0xF) + (a >> 20 & 0xFF));
}

inline bool FindZen4() {
  return FindAmdFamily() == 25 && __builtin_cpu_supports("avx512f") != 0;
}

inline const ProcessorKind kProcessorKind = FindProcessorKind();
// As CPUID says it: 25 is Zen 3 and Zen 4, 26 Zen 5; 0 if it is not AMD's.
inline const int kAmdFamily = FindAmdFamily();
// Of which Zen 4 alone has AVX-512.
inline const bool kIsZen4 = FindZen4();
#elif defined(__aarch64__)
inline constexpr ProcessorKind kProcessorKind = ProcessorKind::kArm;
inline constexpr int kAmdFamily = 0;
inline constexpr bool kIsZen4 = false;
#else
inline constexpr ProcessorKind kProcessorKind = ProcessorKind::kOther;
inline constexpr int kAmdFamily = 0;
inline constexpr bool kIsZen4 = false;
#endif

}  // namespace flashacl::cpu
