// SPDX-License-Identifier: Apache-2.0
// fork() for tests whose other threads may be at work.
#pragma once

#include <sys/types.h>

namespace flashacl::testing {

// fork(). The address sanitizer of GCC 12 copies the locks of its allocator as
// they are: a child whose parent was just allocating on another thread waits
// for ever. There, this first waits until the other threads sleep, for at most
// a tenth of a second: one that computes longer than that does not allocate.
pid_t Fork();

}  // namespace flashacl::testing
