// SPDX-License-Identifier: Apache-2.0
// The backend that the runtime's devices are.
#pragma once

#include "plan/backend.h"

namespace flashacl::acl {

// The CPU, with as many workers as the environment says.
const Backend& TheBackend();

inline Memory& DeviceMemory() { return *TheBackend().memory; }

// For tests: another backend, or the CPU again if it is null. No context may
// live on the one before.
void UseBackend(const Backend* backend);

}  // namespace flashacl::acl
