// SPDX-License-Identifier: Apache-2.0
// How many heads over listed keys are few.
#pragma once

#include <cstdint>

#include "plan/backend.h"

namespace flashacl::cpu {

// The most heads per kv head, at most kDecodeRows, whose listed keys are read
// where they lie rather than converted for panels of heads; 0: none. It depends
// on the processor, as a panel, or half of one, takes as long with any heads in
// it.
int64_t MostFewHeads(const DeviceInfo& device);

}  // namespace flashacl::cpu
