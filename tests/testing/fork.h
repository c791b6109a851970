// SPDX-License-Identifier: Apache-2.0
// fork() for tests whose other threads may be at work.
#pragma once

#include <sys/types.h>

namespace flashacl::testing {

// fork(). GCC 12's address and thread sanitizers copy the locks of their
// allocators as they are: a child whose parent was just allocating on another
// thread waits for ever. There, this first waits until the other threads sleep,
// for at most a tenth of a second: one that computes longer than that does not
// allocate.
pid_t Fork();

}  // namespace flashacl::testing
