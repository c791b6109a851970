// SPDX-License-Identifier: Apache-2.0
// This folder is the forward direction on CPUs (FlashAttention): tiles of query
// rows times keys, with fp32 sums, in memory that does not grow with lengths.
#pragma once

#include "plan/implementation.h"

namespace flashacl {

// "cpu/forward": every forward problem but those of top-k lists. The same bits
// for any number of workers.
extern const Implementation kCpuForward;

}  // namespace flashacl
