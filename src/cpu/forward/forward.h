// SPDX-License-Identifier: Apache-2.0
// The forward direction on processors: tiles of rows times keys, with fp32
// sums, in memory that does not grow with the sequences.
#pragma once

#include "plan/implementation.h"

namespace flashacl {

// "cpu/forward": every forward problem but those of top-k lists. The same bits
// for any number of workers.
extern const Implementation kCpuForward;

}  // namespace flashacl
