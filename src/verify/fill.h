// SPDX-License-Identifier: Apache-2.0
// Random contents for the inputs of a problem; sample.h says what they are
// like.
#pragma once

#include <cstdint>

#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl {

// How many dimensions the slot has; its spec ignores the rest.
size_t AxisCount(const AttentionProblem& problem, Slot slot);

// Elements from the first to the last one the problem's tensor may ask for;
// bits for keep bits. 0 for absent tensors and for lists.
int64_t ElementsOf(const AttentionProblem& problem, Slot slot);
int64_t BytesOf(const AttentionProblem& problem, Slot slot);

// Of one tensor of a list.
int64_t BytesOf(const TensorSpec& spec);

// Fills every input that is present in `bindings`, except what backward takes
// from forward (kOut, kRowMax, kRowSum). What no sequence owns keeps what it
// holds. For work on the host (Queue::OnHost).
void FillInputs(const AttentionProblem& problem, const Bindings& bindings,
                uint64_t seed);

}  // namespace flashacl
