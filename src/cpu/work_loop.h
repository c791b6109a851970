// SPDX-License-Identifier: Apache-2.0
// Work that is handed out one piece at a time to workers, each of which has
// scratch memory of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "plan/backend.h"

namespace flashacl::cpu {

// The numbers in [0, count), handed out one at a time, each to one worker.
class WorkList {
 public:
  explicit WorkList(int64_t count) : count_(count) {}

  // `count` after the last.
  int64_t Take() { return std::min(next_++, count_); }

 private:
  // Alone on its line: every worker writes to it.
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) const int64_t count_;
};

// Calls work(worker, take) once for each of `most` workers, or of `count` where
// that is less, side by side; take() hands out the numbers in [0, count), each
// to one worker, then `count`.
template <typename Work>
void ForEachWorker(Workers& workers, int64_t most, int64_t count, Work work) {
  WorkList list(count);
  workers.ForEach(std::min(most, count), [&](int64_t worker) {
    work(worker, [&] { return list.Take(); });
  });
}

// Calls work(n, worker) once for each number in [0, count).
template <typename Work>
void ForEachItem(Workers& workers, int64_t most, int64_t count, Work work) {
  ForEachWorker(workers, most, count, [&](int64_t worker, auto take) {
    for (int64_t n = take(); n < count; n = take()) work(n, worker);
  });
}

}  // namespace flashacl::cpu
