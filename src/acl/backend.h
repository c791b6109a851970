// SPDX-License-Identifier: Apache-2.0
// The backend that the runtime's devices are.
#pragma once

#include "base/status.h"
#include "plan/backend.h"

namespace flashacl::acl {

// The CPU, with the workers and vector instructions that the environment says.
const Backend& TheBackend();

// Whether this processor has the instructions that FLASHACL_TARGET asks for;
// operators refuse to plan where it does not.
const Status& TargetStatus();

inline Memory& DeviceMemory() { return *TheBackend().memory; }

// For tests: another backend, or the CPU again if it is null. No context may
// live on the one before.
void UseBackend(const Backend* backend);

}  // namespace flashacl::acl
