// SPDX-License-Identifier: Apache-2.0
// What our atomics order, said to ThreadSanitizer where the program runs under
// it: of a library that it did not compile it sees mutexes and the C library's
// functions, and takes what atomics order for races.
#pragma once

extern "C" {
// NOLINTNEXTLINE: the sanitizer's names; null where it is not there.
__attribute__((weak)) void __tsan_acquire(void* at);
// NOLINTNEXTLINE
__attribute__((weak)) void __tsan_release(void* at);
}

namespace flashacl {

// After a load that has seen what was stored after TsanRelease at `at`.
inline void TsanAcquire(const void* at) {
  if (__tsan_acquire != nullptr) __tsan_acquire(const_cast<void*>(at));
}

// Before the store.
inline void TsanRelease(const void* at) {
  if (__tsan_release != nullptr) __tsan_release(const_cast<void*>(at));
}

}  // namespace flashacl
