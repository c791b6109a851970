// SPDX-License-Identifier: Apache-2.0
// What the answer is: attention and its gradients by definition, in fp64,
// without tiles. Slow, readable, and the last row of every backend's table.
#pragma once

#include "plan/implementation.h"

namespace flashacl {

// "reference/fp64": takes every problem. Results are rounded once, when they
// are stored, and are the same bits for any number of workers.
extern const Implementation kReference;

}  // namespace flashacl
