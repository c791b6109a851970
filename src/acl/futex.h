// SPDX-License-Identifier: Apache-2.0
// Sleeping until somebody says that a word has changed. The word may lie in
// memory that processes share.
#pragma once

#include <atomic>
#include <cstdint>

#include "acl/latch.h"

namespace flashacl::acl {

// Sleeps while `word` is `seen`, until it is woken or the time is over. May
// return for no reason, so callers look again.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t seen,
               Deadline deadline);

// Wakes all who sleep. What made them sleep must have changed before.
void FutexWake(const std::atomic<uint32_t>& word);

}  // namespace flashacl::acl
