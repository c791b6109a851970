// SPDX-License-Identifier: Apache-2.0
// Three functions that framework adapters look up by name and call around
// operators, to keep host memory for executors. Ours need none, so nothing is
// to be done; found, they spare the adapters a warning.

#define FLASHACL_EXPORT __attribute__((visibility("default")))

extern "C" {

FLASHACL_EXPORT int InitHugeMemThreadLocal(void*, bool) { return 0; }

FLASHACL_EXPORT void UnInitHugeMemThreadLocal(void*, bool) {}

FLASHACL_EXPORT void ReleaseHugeMem(void*, bool) {}

}  // extern "C"
