// SPDX-License-Identifier: Apache-2.0
// What happens to a score besides masking: position biases ("pse", which the
// forward calls realShift) and dropout.
#pragma once

#include "base/status.h"
#include "ops/training.h"
#include "problem/attention_problem.h"

namespace flashacl::ops {

// kContradiction unless pseType is 0 to 3; kInvalidArgument unless there is a
// pse of the type it needs: query's for biases, FLOAT for slopes. Only pseType
// 1 can be without, and type 0 with a tensor that is `empty`.
Status CheckPse(const Training& training, aclDataType query_type, bool empty);

// States the bias in `problem`: kBias, how it enters the score, where alibi
// starts. Nothing if there is no pse. kContradiction if the tensor has none of
// the documented shapes, or if mask and lengths do not go with it.
Status LowerPse(const Training& training, AttentionProblem& problem);

// Where the elements of a tensor of pse's shape are: for pse and its gradient.
Result<TensorSpec> PseGrid(const Training& training, const acl::Tensor& tensor);

// kContradiction unless 0 < keepProb <= 1, as a float.
Status CheckKeepProb(const Training& training);

// States dropout in `problem`: kKeep and the probability. kContradiction if the
// mask has fewer bits than there are scores.
Status LowerDropMask(const Training& training, AttentionProblem& problem);

}  // namespace flashacl::ops
