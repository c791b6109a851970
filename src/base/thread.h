// SPDX-License-Identifier: Apache-2.0
// Threads of ours, which a process may not have: starting one fails with errno,
// and throws nothing.
#pragma once

namespace flashacl {

// Runs start(argument) on a thread that nobody joins and that no signal arrives
// on: signals are the program's. 0, or why there is no thread.
int StartDetached(void* (*start)(void*), void* argument);

// How many threads this process may run on at a time.
int AvailableProcessors();

}  // namespace flashacl
