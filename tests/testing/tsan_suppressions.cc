// SPDX-License-Identifier: Apache-2.0
// oneTBB comes as a compiled library that ThreadSanitizer cannot look into:
// it sees TBB free and compare its own memory and misses how TBB orders that.
// Only what TBB does itself is forgiven; bodies of loops are checked.

#if defined(__SANITIZE_THREAD__)
#define FLASHACL_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLASHACL_TSAN
#endif
#endif

#ifdef FLASHACL_TSAN
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libtbb.so\n";
}
#endif
