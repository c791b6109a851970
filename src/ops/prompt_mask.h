// SPDX-License-Identifier: Apache-2.0
// Who sees whom in a prefill, and what is added to scores: sparse modes, masks
// and biases.
#pragma once

#include "base/status.h"
#include "ops/prompt.h"
#include "problem/mask.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

struct PromptMask {
  Mask rules;
  TensorSpec grid;          // absent: no tensor decides
  bool compressed = false;  // the tensor is a fixed picture of the rule
};

// After lengths. kContradiction if the mode has no meaning, lacks its mask, has
// one of another shape, or a band that leaves nothing.
Result<PromptMask> ReadMask(const Prompt& prompt);

// [B or 1, N, S1, S2] as a grid; pseShift is there.
Result<TensorSpec> PseGrid(const Prompt& prompt);

}  // namespace flashacl::ops
