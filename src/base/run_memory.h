// SPDX-License-Identifier: Apache-2.0
// Memory for what a run derives before its work begins: lists of sequences,
// tiles, tickets. A thread keeps it from run to run, so only the first run of a
// size allocates.
#pragma once

#include <cstddef>
#include <vector>

namespace flashacl {

// One run on the calling thread: until it ends, RunVectors of this thread take
// their memory from what the thread kept. A run inside of another takes from
// the same.
class RunMemoryScope {
 public:
  RunMemoryScope();
  ~RunMemoryScope();
  RunMemoryScope(const RunMemoryScope&) = delete;
  RunMemoryScope& operator=(const RunMemoryScope&) = delete;

 private:
  bool outermost_ = false;
};

// Aligned to 16 bytes. Throws std::bad_alloc; outside of a run, the same as
// operator new and delete.
void* AllocateInRun(size_t bytes);
void FreeInRun(void* at) noexcept;

template <typename T>
struct RunAllocator {
  using value_type = T;
  static_assert(alignof(T) <= 16);

  RunAllocator() = default;
  template <typename U>
  RunAllocator(const RunAllocator<U>&) {}  // NOLINT: by design

  T* allocate(size_t count) {
    return static_cast<T*>(AllocateInRun(count * sizeof(T)));
  }
  void deallocate(T* at, size_t) noexcept { FreeInRun(at); }

  bool operator==(const RunAllocator&) const = default;
};

// A vector that is made and destroyed inside of one run, on the run's thread,
// or outside of runs.
template <typename T>
using RunVector = std::vector<T, RunAllocator<T>>;

}  // namespace flashacl
