// SPDX-License-Identifier: Apache-2.0
// One way to compute. Backends list these best first; the last one of every
// backend is the reference, which takes every problem.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/run_memory.h"
#include "base/status.h"
#include "plan/backend.h"
#include "plan/balance.h"
#include "plan/bindings.h"
#include "plan/cost.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl {

// What an implementation decided for one problem: immutable, holds no address,
// serves any number of runs, at the same time too.
class Prepared {
 public:
  // `gflops`: about what one thread does of the matrix products; 0: nobody
  // knows.
  explicit Prepared(AttentionProblem problem, double gflops = 0)
      : problem_(std::move(problem)),
        microseconds_(MicrosecondsOf(problem_, gflops)) {}
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  const AttentionProblem& problem() const { return problem_; }

  // About how long one thread takes; infinity where nobody knows.
  double microseconds() const { return microseconds_; }

  // Puts the computation on `queue`, which is one of the backend's; it may not
  // be done when this returns. `workspace` has as many bytes as preparing
  // reserved, aligned to WorkspaceLayout::kAlignmentBytes; null if these are 0.
  virtual Status Run(const Bindings& bindings, std::byte* workspace,
                     Queue& queue) const = 0;

  // How the work is cut, in a few words: "64 of at most 1024 rows, 144 keys a
  // step; none split".
  virtual std::string Describe() const = 0;

  // How evenly so many workers would share a run, if it was prepared for them.
  // Nobody's, of no workers, where that is known only when it runs.
  virtual Balance Predict(int64_t /*workers*/) const { return {}; }

 private:
  const AttentionProblem problem_;
  const double microseconds_;
};

// The calling thread.
class OneWorker final : public Workers {
 public:
  void ForEach(int64_t count, FunctionRef<void(int64_t)> body) override {
    for (int64_t n = 0; n < count; ++n) body(n);
  }
  int count() const override { return 1; }
};

// For implementations that run on the host: on any backend, as its queue lets
// them touch device memory.
class HostPrepared : public Prepared {
 public:
  // What one thread ends before others have come is its alone: waking one takes
  // 5 to 50 microseconds (docs/notes/0037).
  static constexpr double kAloneMicroseconds = 16;

  using Prepared::Prepared;

  Status Run(const Bindings& bindings, std::byte* workspace,
             Queue& queue) const final {
    return queue.OnHost([&](Workers& workers) {
      const RunMemoryScope memory;
      OneWorker alone;
      const bool is_short = microseconds() < kAloneMicroseconds;
      return Run(bindings, workspace, is_short ? alone : workers);
    });
  }

  // The same, done when this returns. Results do not depend on the workers.
  virtual Status Run(const Bindings& bindings, std::byte* workspace,
                     Workers& workers) const = 0;
};

struct Implementation {
  std::string_view name;  // "backend/direction/key-format[/variant]"

  // Ok, or why not, in words a person can act on.
  Status (*supports)(const AttentionProblem& problem, const DeviceInfo& device);

  // Decides, and reserves memory in `workspace`, which is empty. Reads no
  // device data.
  std::shared_ptr<const Prepared> (*prepare)(const AttentionProblem& problem,
                                             const DeviceInfo& device,
                                             WorkspaceLayout& workspace);

  // Of what it supports: ok, or why one that comes later is faster on this
  // device, in such words. Not asked of an implementation that somebody names;
  // null: it always suits.
  Status (*suits)(const AttentionProblem& problem,
                  const DeviceInfo& device) = nullptr;
};

// Implementation::prepare for a class that is constructed so.
template <typename T>
std::shared_ptr<const Prepared> MakePrepared(const AttentionProblem& problem,
                                             const DeviceInfo& device,
                                             WorkspaceLayout& workspace) {
  return std::make_shared<const T>(problem, device, workspace);
}

}  // namespace flashacl
