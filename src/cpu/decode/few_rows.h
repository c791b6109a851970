// SPDX-License-Identifier: Apache-2.0
// How many rows are few.
#pragma once

#include <cstdint>

#include "plan/backend.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// The most packed rows per kv head, at most kDecodeRows, of a sequence whose
// keys are streamed past them rather than converted for tiles. It depends on
// the processor, as tiles take whole panels of rows, of two vectors, and a
// panel takes as long with any rows in it; and on the types, channels and
// extents of tensors. It does not depend on lengths: a sequence keeps its bits
// whatever lengths others have, and a plan for any lengths has workspace for
// all.
int64_t MostFewRows(const AttentionProblem& problem, const DeviceInfo& device);

}  // namespace flashacl::cpu
