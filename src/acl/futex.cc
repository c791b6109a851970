// SPDX-License-Identifier: Apache-2.0
#include "acl/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace flashacl::acl {

// The kernel knows a word by its address.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

void FutexWait(const std::atomic<uint32_t>& word, uint32_t seen,
               Deadline deadline) {
  timespec left{};
  if (deadline.has_value()) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        *deadline - Clock::now())
                        .count();
    if (ns <= 0) return;
    left.tv_sec = static_cast<time_t>(ns / 1000000000);
    left.tv_nsec = static_cast<long>(ns % 1000000000);
  }
  syscall(SYS_futex, &word, FUTEX_WAIT, seen,
          deadline.has_value() ? &left : nullptr, nullptr, 0);
}

void FutexWake(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace flashacl::acl
