// SPDX-License-Identifier: Apache-2.0
// Workers that finish in no order anyone could rely on: what depends on who
// does what, and when, shows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "plan/backend.h"

namespace flashacl {

class ShuffledWorkers final : public Workers {
 public:
  explicit ShuffledWorkers(int count, uint64_t seed = 1)
      : count_(count), random_(seed) {}

  void ForEach(int64_t count, FunctionRef<void(int64_t)> body) override {
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), int64_t{0});
    for (size_t n = order.size(); n > 1; --n) {
      const int64_t other = random_.Within(0, static_cast<int64_t>(n) - 1);
      std::swap(order[n - 1], order[static_cast<size_t>(other)]);
    }
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t n = next++; n < order.size(); n = next++) body(order[n]);
    };
    std::vector<std::thread> others;
    const int64_t wanted = std::min<int64_t>(count_, count);
    for (int64_t n = 1; n < wanted; ++n) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
  }

  int count() const override { return count_; }

 private:
  int count_;
  Random random_;
};

}  // namespace flashacl
