// SPDX-License-Identifier: Apache-2.0
// Who sees whom in a call of inference, and what is added to scores: sparse
// modes, masks and biases.
#pragma once

#include "acl/executor.h"
#include "base/status.h"
#include "ops/inference.h"

namespace flashacl::ops {

// States rules, mask and bias, after lengths. kContradiction if the mode has no
// meaning, lacks its mask, has one of another shape, or a band that leaves
// nothing. Decode has no modes.
Status LowerMask(const InferenceCall& call, acl::Lowered& lowered);

}  // namespace flashacl::ops
