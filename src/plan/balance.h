// SPDX-License-Identifier: Apache-2.0
// How evenly workers would share a run, predicted: pieces of work are handed
// out in order to whoever is free first, and nothing is computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/run_memory.h"

namespace flashacl {

// Costs are in any one unit: implementations count multiply-adds.
struct Balance {
  int64_t workers = 0;  // 0: nobody can predict it
  int64_t pieces = 0;
  double work = 0;       // of all pieces
  double busiest = 0;    // of the worker that has most of it
  double elapsed = 0;    // until the last worker is done, waits included
  double combining = 0;  // of the work: adding up what was split

  // The mean work of a worker over that of the busiest; 1: all have the same.
  double evenness() const { return Share(work, busiest); }

  // The part of all workers' time in which they work; 1: nobody waits.
  double busy() const { return Share(work, elapsed); }

 private:
  double Share(double part, double each) const {
    return each > 0 ? part / (each * static_cast<double>(workers)) : 1.0;
  }
};

// A run without its arithmetic: a clock and a sum for every worker.
class Rehearsal {
 public:
  // One of the workers.
  struct Worker {
    int64_t index;
    double free_at = 0;
    double work = 0;

    void Work(double cost) {
      free_at += cost;
      work += cost;
    }
    void WaitUntil(double time) { free_at = std::max(free_at, time); }
  };

  explicit Rehearsal(int64_t workers) {
    workers_.reserve(static_cast<size_t>(workers));
    for (int64_t n = 0; n < workers; ++n) workers_.push_back({n});
  }

  // The worker that is free first takes a piece: body(worker) adds its work.
  template <typename Body>
  void TakeWith(Body body) {
    std::pop_heap(workers_.begin(), workers_.end(), Later);
    body(workers_.back());
    std::push_heap(workers_.begin(), workers_.end(), Later);
    ++pieces_;
  }
  void Take(double cost) {
    TakeWith([&](Worker& worker) { worker.Work(cost); });
  }

  // The same for a piece that combines splits.
  void Combine(double cost) {
    Take(cost);
    combining_ += cost;
  }

  // All wait for the last.
  void Meet() {
    const double last = elapsed();
    for (Worker& worker : workers_) worker.free_at = last;
  }

  Balance result() const;

 private:
  static bool Later(const Worker& a, const Worker& b) {
    return a.free_at > b.free_at;
  }

  double elapsed() const {
    double last = 0;
    for (const Worker& worker : workers_) last = std::max(last, worker.free_at);
    return last;
  }

  RunVector<Worker> workers_;  // a heap: who is free first is first
  int64_t pieces_ = 0;
  double combining_ = 0;
};

}  // namespace flashacl
