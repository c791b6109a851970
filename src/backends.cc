// SPDX-License-Identifier: Apache-2.0
// A line per backend.
#include "backends.h"

#include <algorithm>
#include <vector>

#include "base/once.h"
#include "cpu/cpu_backend.h"
#include "cpu/cpu_info.h"
#include "reference/reference.h"

namespace flashacl {
namespace {

// The last row of every table: what takes every problem, and what the others
// are compared with. A copy of the rows, for a plan points into the table.
Backend WithReference(Backend backend) {
  const size_t count = backend.implementations.size();
  auto* const rows = new Implementation[count + 1];
  std::ranges::copy(backend.implementations, rows);
  rows[count] = kReference;
  backend.implementations = {rows, count + 1};
  return backend;
}

}  // namespace

std::span<const Backend> AllBackends() {
  static constinit MadeOnce<const std::vector<Backend>> backends;
  return backends.Get([] {
    return std::vector<Backend>{
        WithReference(cpu::ThisCpu()),
    };
  });
}

const Backend& CpuBackend() { return AllBackends().front(); }

void SetWorkerCount(int count) { cpu::SetWorkerCount(count); }

Status LimitVectorTarget(std::string_view name) {
  return cpu::LimitVectorTarget(name);
}

}  // namespace flashacl
