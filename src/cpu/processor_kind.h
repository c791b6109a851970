// SPDX-License-Identifier: Apache-2.0
// Whose processor this is, for choices that were measured on each kind.
#pragma once

#include <cstdint>

namespace flashacl::cpu {

enum class ProcessorKind : uint8_t { kAmd, kArm, kOther };

#if defined(__x86_64__)
inline ProcessorKind FindProcessorKind() {
  __builtin_cpu_init();  // nobody else may have, before main
  return __builtin_cpu_is("amd") ? ProcessorKind::kAmd : ProcessorKind::kOther;
}

// Looked up before main: what a thread would look up first during a fork, a
// child would wait for without end.
inline const ProcessorKind kProcessorKind = FindProcessorKind();
#elif defined(__aarch64__)
inline constexpr ProcessorKind kProcessorKind = ProcessorKind::kArm;
#else
inline constexpr ProcessorKind kProcessorKind = ProcessorKind::kOther;
#endif

}  // namespace flashacl::cpu
