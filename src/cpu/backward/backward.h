// SPDX-License-Identifier: Apache-2.0
// The backward direction on processors: this folder computes dq, dk and dv, and
// the gradients of biases and sinks, from the row statistics that the forward
// direction saved, tile by tile and in fp32.
#pragma once

#include "plan/implementation.h"

namespace flashacl {

// "cpu/backward": every backward problem but those of top-k lists. The same
// bits for any number of workers.
extern const Implementation kCpuBackward;

}  // namespace flashacl
