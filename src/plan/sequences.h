// SPDX-License-Identifier: Apache-2.0
// What only the stream knows about a problem's sequences, read at the head of
// a launch.
#pragma once

#include <span>
#include <vector>

#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl {

// The sequences as they are in this run: the problem's own, narrowed by the
// tensors of lengths and padding where it has them.
// Values outside of what a tensor holds are clamped into it, so that wrong
// lengths cost a wrong answer and never a wild read. With padding p, the n
// queries or keys of a sequence are the n rows before the last p; where they
// would start before row 0 the sequence has none.
std::vector<Sequence> ResolveSequences(const AttentionProblem& problem,
                                       const Bindings& bindings);

// The same in place: `sequences` are the problem's own.
void NarrowSequences(const AttentionProblem& problem, const Bindings& bindings,
                     std::span<Sequence> sequences);

// Whether planning knows the sequences: no tensor narrows them.
bool SequencesAreKnown(const AttentionProblem& problem);

}  // namespace flashacl
