// SPDX-License-Identifier: Apache-2.0
#include "acl/backend.h"

#include <atomic>

#include "acl/environment.h"
#include "backends.h"

namespace flashacl::acl {
namespace {

std::atomic<const Backend*> replacement{nullptr};

}  // namespace

const Backend& TheBackend() {
  const Backend* const other = replacement.load(std::memory_order_acquire);
  if (other != nullptr) return *other;
  static const Backend& cpu = []() -> const Backend& {
    SetWorkerCount(TheEnvironment().num_threads);
    return CpuBackend();
  }();
  return cpu;
}

void UseBackend(const Backend* backend) {
  replacement.store(backend, std::memory_order_release);
}

}  // namespace flashacl::acl
