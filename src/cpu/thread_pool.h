// SPDX-License-Identifier: Apache-2.0
// The workers of the CPU backend: a parallel loop, a number of threads, and
// nothing else.
#pragma once

#include <memory>
#include <mutex>

#include "plan/backend.h"

namespace flashacl::cpu {

// Any number of threads may call ForEach at once, also from within a body; all
// share the same workers. Numbers are handed out in ascending order, so a list
// with the costliest first ends evenly. A thread that waits for its loop runs
// numbers of no other: it may be in the middle of using scratch memory.
//
// Threads are started by the first loop that could use them. Where the system
// has fewer, loops end with fewer: in the end, with their callers alone. A loop
// allocates nothing. What a body throws stops its loop, and ForEach throws it
// once no other body runs.
class Pool : public Workers {
 public:
  explicit Pool(int count = 0) { SetCount(count); }
  ~Pool() override;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void ForEach(int64_t count, FunctionRef<void(int64_t)> body) override;
  int count() const override;

  // From the next loop on; 0 or less: as many as this process may run on.
  void SetCount(int count);

 private:
  class Team;

  std::shared_ptr<Team> team() const;

  mutable std::mutex mutex_;
  std::shared_ptr<Team> team_;  // guarded by mutex_
};

}  // namespace flashacl::cpu
