// SPDX-License-Identifier: Apache-2.0
// What element types a problem may combine, and which scales and offsets they
// need: a part of CheckProblem.
#pragma once

#include "base/status.h"
#include "problem/attention_problem.h"
#include "problem/tensor_checks.h"

namespace flashacl {

// Queries, keys and values are of one type, or keys and values are i8. What is
// i8 has a scale and may have an offset, of which nothing else has either.
Status CheckDTypes(const AttentionProblem& problem);

// Scales of keys or values by row stand in for those by channel, never beside
// them, and reach every row that is a key.
Status CheckRowScales(const AttentionProblem& problem, const Needs& needs);

}  // namespace flashacl
