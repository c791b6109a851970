// SPDX-License-Identifier: Apache-2.0
// How the calling thread rounds, and what it does with denormal numbers and
// exceptions of arithmetic.
#pragma once

#if !defined(__x86_64__)
#include <cfenv>
#endif

namespace flashacl {

// While it lives, that of a new program; then again what it was, flags
// included. For vector arithmetic of ours on a thread of the program's.
class DefaultFloats {
 public:
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

#if defined(__x86_64__)
  // The x87 stays as it is: we compute nothing there, and the C library's
  // fesetenv, which sets both, takes a microsecond.
  DefaultFloats() { __builtin_ia32_ldmxcsr(kMaskedToNearest); }
  ~DefaultFloats() { __builtin_ia32_ldmxcsr(before_); }

 private:
  static constexpr unsigned kMaskedToNearest = 0x1f80;
  const unsigned before_ = __builtin_ia32_stmxcsr();
#else
  DefaultFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_{};
#endif
};

}  // namespace flashacl
