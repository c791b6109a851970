// SPDX-License-Identifier: Apache-2.0
// When results go past the caches.
#pragma once

#include <cstdint>

#include "cpu/processor_kind.h"
#include "plan/backend.h"
#include "plan/cost.h"

namespace flashacl::cpu {

// Whether results of this many bytes are too much for caches. What is streamed
// is not fetched before it is written: a third of what a copy moves, a quarter
// of what a merge of two does.
constexpr bool Streams(int64_t bytes) { return bytes >= kStreamedBytes; }

// Whether tiles of an attention problem stream. Not on ARM: NEON's code has no
// such stores (Highway's Stream is a store), and none was measured.
inline bool StreamsResults(const AttentionProblem& problem,
                           const DeviceInfo& device) {
  return kProcessorKind != ProcessorKind::kArm &&
         ResultBytes(problem) >= static_cast<double>(device.streamed_bytes);
}

}  // namespace flashacl::cpu
