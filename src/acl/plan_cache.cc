// SPDX-License-Identifier: Apache-2.0
// A few plans, the oldest of which goes first. Looking through them costs
// little: problems differ in their first numbers, mostly.
#include "acl/plan_cache.h"

#include <array>
#include <cmath>
#include <mutex>
#include <utility>

#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

// Of 5 to 20 KiB each: plans with more sequences are not kept.
constexpr size_t kPlans = 16;
constexpr int64_t kMaxSequences = 64;

struct Kept {
  const Backend* backend = nullptr;
  std::shared_ptr<const Plan> plan;

  // -0 is another scale than 0.
  bool IsOf(const Backend& other, const AttentionProblem& problem) const {
    return backend == &other && plan->problem() == problem &&
           std::signbit(plan->problem().score.scale) ==
               std::signbit(problem.score.scale);
  }
};

struct Cache {
  ProcessMutex mutex;  // guards what follows
  std::array<Kept, kPlans> kept;
  size_t oldest = 0;
};

Cache& TheCache() {
  static constinit MadeOnce<Cache> cache;
  return *cache;
}

}  // namespace

Result<std::shared_ptr<const Plan>> PlanFor(const Backend& backend,
                                            const AttentionProblem& problem) {
  Cache& cache = TheCache();
  {
    std::lock_guard lock(cache.mutex);
    for (const Kept& kept : cache.kept) {
      if (kept.IsOf(backend, problem)) return kept.plan;
    }
  }
  Result<Plan> made = MakePlan(backend, problem);
  if (!made.ok()) return made.status();
  auto plan = std::make_shared<const Plan>(*std::move(made));
  if (problem.lengths.count() > kMaxSequences) return plan;
  Kept gone{&backend, plan};  // released without the lock
  std::lock_guard lock(cache.mutex);
  std::swap(cache.kept[cache.oldest], gone);
  cache.oldest = (cache.oldest + 1) % kPlans;
  return plan;
}

void ForgetPlans() {
  std::array<Kept, kPlans> gone;  // released without the lock
  std::lock_guard lock(TheCache().mutex);
  std::swap(TheCache().kept, gone);
}

}  // namespace flashacl::acl
