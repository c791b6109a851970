// SPDX-License-Identifier: Apache-2.0
#include "acl/backend.h"

#include <atomic>

#include "acl/closed_memory.h"
#include "acl/environment.h"
#include "acl/plan_cache.h"
#include "backends.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

std::atomic<const Backend*> replacement{nullptr};

}  // namespace

const Backend& TheBackend() {
  const Backend* const other = replacement.load(std::memory_order_acquire);
  if (other != nullptr) return *other;
  static constinit MadeOnce<const Backend* const> cpu;
  return *cpu.Get([]() -> const Backend* {
    (void)TargetStatus();
    SetWorkerCount(TheEnvironment().num_threads);
    if (!ClosesDeviceMemory()) return &CpuBackend();
    auto* const closing = new Backend(CpuBackend());
    closing->memory = &OpeningMemory();
    return closing;
  });
}

const Status& TargetStatus() {
  static constinit MadeOnce<const Status> status;
  return status.Get([] {
    const Status limited = LimitVectorTarget(TheEnvironment().target);
    // A build for another processor is no fault of the variable.
    if (limited.ok() || limited.code() == Code::kUnsupported) return limited;
    return Status(Invalid("FLASHACL_TARGET: {}", limited.message()));
  });
}

void UseBackend(const Backend* backend) {
  replacement.store(backend, std::memory_order_release);
  ForgetPlans();
}

}  // namespace flashacl::acl
