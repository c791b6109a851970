// SPDX-License-Identifier: Apache-2.0
// What framework adapters link to report their own work to a profiler. Nobody
// listens: numbers are right, reports are taken and dropped unread.
#include <chrono>
#include <cstddef>
#include <cstdint>

#define FLASHACL_EXPORT __attribute__((visibility("default")))

struct MsprofApi;

extern "C" {

// Nanoseconds of a clock that never goes back.
FLASHACL_EXPORT uint64_t MsprofSysCycleTime(void) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// The same for the same text, and 0 for null alone: FNV-1a.
FLASHACL_EXPORT uint64_t MsprofGetHashId(const char* info, size_t length) {
  if (info == nullptr) return 0;
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t n = 0; n < length; ++n) {
    hash = (hash ^ static_cast<unsigned char>(info[n])) * 0x100000001B3;
  }
  return hash == 0 ? 1 : hash;
}

FLASHACL_EXPORT int32_t MsprofReportApi(uint32_t, const struct MsprofApi*) {
  return 0;
}

FLASHACL_EXPORT int32_t MsprofReportCompactInfo(uint32_t, const void*,
                                                uint32_t) {
  return 0;
}

FLASHACL_EXPORT int32_t MsprofReportAdditionalInfo(uint32_t, const void*,
                                                   uint32_t) {
  return 0;
}

FLASHACL_EXPORT int32_t MsprofRegisterCallback(uint32_t,
                                               int32_t (*)(uint32_t, void*,
                                                           uint32_t)) {
  return 0;
}

}  // extern "C"
