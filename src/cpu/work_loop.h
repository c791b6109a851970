// SPDX-License-Identifier: Apache-2.0
// Work that is handed out one piece at a time, on slots of scratch memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "plan/backend.h"

namespace flashacl::cpu {

// Calls work(slot, take) once for as many slots as there are, at most `count`,
// side by side; take() hands out the numbers in [0, count), each to one slot,
// then `count`.
template <typename Work>
void ForEachWorker(Workers& workers, int64_t slots, int64_t count, Work work) {
  std::atomic<int64_t> next{0};
  workers.ForEach(std::min(slots, count), [&](int64_t slot) {
    work(slot, [&] { return std::min(next++, count); });
  });
}

}  // namespace flashacl::cpu
