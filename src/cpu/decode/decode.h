// SPDX-License-Identifier: Apache-2.0
// This folder is the forward direction of few query rows, as in decoding: one
// pass over keys and values at the speed of memory.
#pragma once

#include "plan/implementation.h"

namespace flashacl {

// "cpu/decode": forward problems with few packed rows per kv head. The same
// bits for any number of workers and any batch, and wherever keys lie.
extern const Implementation kCpuDecode;

}  // namespace flashacl
