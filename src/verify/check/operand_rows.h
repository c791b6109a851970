// SPDX-License-Identifier: Apache-2.0
// Which operands have a row per query or per key, and how many rows, heads and
// channels.
#pragma once

#include <cstdint>
#include <optional>

#include "problem/attention_problem.h"
#include "verify/check/tensor_layout.h"

namespace flashacl {

bool HasKeyRows(Slot slot);
bool HasQueryRows(Slot slot);

// Whether the bias, and its gradient, are [sequence, head, row, column].
bool IsBiasPlane(const AttentionProblem& problem);

// Of one row and head.
int64_t ChannelsOf(const AttentionProblem& problem, Slot slot);

// The rope of a slot whose tensor may have it at its end.
std::optional<Slot> RopeOf(Slot slot);

RowExtents ExtentsOf(const AttentionProblem& problem, Slot slot);

}  // namespace flashacl
