// SPDX-License-Identifier: Apache-2.0
// Sparse modes: which rule each sequence gets, and where the mask tensor has
// the element of a score.
#pragma once

#include "base/status.h"
#include "ops/training.h"
#include "problem/attention_problem.h"
#include "problem/mask.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// All of these are for calls with a mask tensor; without one everything is
// seen, whatever the other arguments say.

// kContradiction unless the layout has such a mode.
Status CheckSparseMode(const Training& training);

// One list element per sequence, each within what the sequence's lengths
// allow. Only mode 6 has prefixes: in mode 5 the mask tensor says it all.
Status CheckPrefix(const Training& training);

// What forward refuses of tokens and lengths, and what backward does: their
// documents differ.
Status CheckForwardTokens(const Training& training);
Status CheckBackwardTokens(const Training& training);

// The rules, after the checks above.
Mask SparseRules(const Training& training);

// Whether the mask tensor is a fixed picture of the sparse mode's rule.
bool IsMaskCompressed(const Training& training);

// The mask as a grid. Absent for compressed modes, whose tensor only has its
// shape checked: its contents are a fixed picture of the rule.
// Four-dimensional masks [B, 1, ...] and [B, N, ...] are stored as their shape
// says in forward, in backward as one block per sequence, as long as that is.
Result<TensorSpec> MaskGrid(const Training& training);

// States rules and tensor, after all checks; nothing without a tensor.
Status LowerMask(const Training& training, AttentionProblem& problem);

}  // namespace flashacl::ops
