// SPDX-License-Identifier: Apache-2.0
// Sparse modes: which rule each sequence gets, and where the mask tensor has
// the element of a score.
#pragma once

#include "base/status.h"
#include "ops/training.h"
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

// How the four-dimensional masks [B, 1, ...] and [B, N, ...] are stored.
enum class MaskStorage : uint8_t {
  kPadded,  // as their shape says: forward
  kPacked,  // one block per sequence, as long as the sequence: backward
};

// Whether the mask tensor is a fixed picture of the sparse mode's rule.
bool IsMaskCompressed(const Training& training);

// The mask as a grid. Absent for compressed modes, whose tensor only has its
// shape checked: its contents are a fixed picture of the rule.
Result<TensorSpec> MaskGrid(const Training& training, MaskStorage storage);

}  // namespace flashacl::ops
