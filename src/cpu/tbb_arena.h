// SPDX-License-Identifier: Apache-2.0
// The only place that knows oneTBB: some threads that call one function
// together.
#pragma once

#include <memory>

namespace flashacl::cpu {

class Arena {
 public:
  explicit Arena(int threads);  // at least 1, the caller's included
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int threads() const { return threads_; }

  // Calls share(context) `times` times, on as many threads as are free, and
  // returns when all calls have. The shares see what the caller wrote before,
  // the caller then sees what they wrote. Any thread may call this at any time,
  // also from within a share. While a share waits for shares it called for, its
  // thread runs only those.
  void Run(int times, void (*share)(void*), void* context);

  // As many threads as this process may run on.
  static int DefaultThreads();

 private:
  struct Tbb;
  int threads_;
  std::unique_ptr<Tbb> tbb_;
};

}  // namespace flashacl::cpu
