// SPDX-License-Identifier: Apache-2.0
// Who sees whom in a call of inference, and what is added to scores: sparse
// modes, masks and biases.
#pragma once

#include <cstdint>
#include <string>

#include "acl/executor.h"
#include "base/status.h"
#include "ops/inference.h"

namespace flashacl::ops {

// States rules, mask and bias, after lengths. kContradiction if the mode has no
// meaning, lacks its mask, has one of another shape, or a band that leaves
// nothing. Decode has no modes.
Status LowerMask(const InferenceCall& call, acl::Lowered& lowered);

// The shapes that a mask of `rows` and `columns` may have, for messages;
// `first` is the rows of one that has two axes.
std::string MaskShapes(int64_t first, int64_t rows, int64_t columns,
                       int64_t sequences);

}  // namespace flashacl::ops
