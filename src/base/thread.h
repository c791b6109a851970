// SPDX-License-Identifier: Apache-2.0
// Threads of ours, which a process may not have: starting one fails with errno,
// and throws nothing.
#pragma once

namespace flashacl {

// Runs start(argument) on a thread that nobody joins. No signals arrive there,
// as they are the program's, but those of the thread's own faults. 0, or why
// there is no thread.
int StartDetached(void* (*start)(void*), void* argument);

// On how many processors the calling thread, and those it starts, may run.
int AvailableProcessors() noexcept;

}  // namespace flashacl
