// SPDX-License-Identifier: Apache-2.0
// Faults on purpose: in the program that links injector.cc, the n-th call of a
// kind fails as the system would make it fail.
#pragma once

#include <cstdint>

#include "base/function_ref.h"

namespace flashacl::testing {

enum class Fault {
  kAllocation,  // malloc and its relatives, operator new, mmap
  kThread,      // pthread_create
  kFile,        // open, read, write and their relatives
};

// While it exists, the n-th call from now on fails, of any thread; if
// `lasting`, all after it, too. n 0: none fails, calls are only counted. One at
// a time.
class Injected {
 public:
  Injected(Fault fault, int64_t n, bool lasting);
  ~Injected();
  Injected(const Injected&) = delete;
  Injected& operator=(const Injected&) = delete;

  int64_t seen() const;    // calls of the kind
  int64_t failed() const;  // of these
};

// Blocks that were allocated and are not free, of the whole process, once
// threads that are ending have ended: when the number stays.
int64_t LiveBlocks();

// Whether `body` leaves more blocks each time it runs. Once is no leak: how
// many blocks the C library keeps for threads to come depends on how they
// overlap.
bool Leaks(FunctionRef<void()> body);

// Faults that were injected so far.
int64_t InjectedFaults();

}  // namespace flashacl::testing
