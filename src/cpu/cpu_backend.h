// SPDX-License-Identifier: Apache-2.0
// The processor this process runs on, as a backend.
#pragma once

#include "plan/backend.h"

namespace flashacl::cpu {

// All but the reference, which every backend ends with. What it points to is
// never destroyed.
Backend ThisCpu();

// How many workers there are from the next loop on; as many as the machine
// offers if `count` is 0 or less.
void SetWorkerCount(int count);

}  // namespace flashacl::cpu
