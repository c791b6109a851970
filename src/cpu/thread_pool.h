// SPDX-License-Identifier: Apache-2.0
// The workers of the CPU backend: a parallel loop, a number of threads, and
// nothing else.
#pragma once

#include <memory>
#include <mutex>

#include "cpu/tbb_arena.h"
#include "plan/backend.h"

namespace flashacl::cpu {

// Any number of threads may call ForEach at once, also from within a body; all
// share the same workers. Numbers are handed out in ascending order, so a list
// with the costliest first ends evenly.
class Pool : public Workers {
 public:
  explicit Pool(int count = 0) { SetCount(count); }

  void ForEach(int64_t count, FunctionRef<void(int64_t)> body) override;
  int count() const override { return arena()->threads(); }

  // From the next loop on; 0 or less: as many as this process may run on.
  void SetCount(int count);

 private:
  std::shared_ptr<Arena> arena() const;

  mutable std::mutex mutex_;
  std::shared_ptr<Arena> arena_;  // guarded by mutex_
};

}  // namespace flashacl::cpu
