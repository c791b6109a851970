// SPDX-License-Identifier: Apache-2.0
// The backward direction on processors: tiles of rows times keys, with fp32
// sums.
#pragma once

#include "plan/implementation.h"

namespace flashacl {

// "cpu/backward": every backward problem but those of top-k lists. The same
// bits for any number of workers.
extern const Implementation kCpuBackward;

}  // namespace flashacl
