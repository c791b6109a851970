// SPDX-License-Identifier: Apache-2.0
// The one place that knows every backend. Each is made on first use and never
// destroyed, so that work may still end while the process does.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "plan/backend.h"

namespace flashacl {

// The CPU first, then the others.
std::span<const Backend> AllBackends();

// The processor this process runs on.
const Backend& CpuBackend();

// How many workers the CPU backend uses from its next loop on; as many as the
// machine offers if `count` is 0 or less. Never changes a result.
void SetWorkerCount(int count);

// Which vector instructions backends use at most: one of the names that a
// DeviceInfo may have as vector_target, or all if it is empty. Before anything
// else here is called. kInvalidArgument lists the names; kUnsupported: vector
// code is compiled for other processors.
Status LimitVectorTarget(std::string_view name);

}  // namespace flashacl
