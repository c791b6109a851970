// SPDX-License-Identifier: Apache-2.0
// What pages and a shared prefix of keys must satisfy: a part of CheckProblem.
#pragma once

#include "base/status.h"
#include "problem/attention_problem.h"
#include "problem/tensor_checks.h"

namespace flashacl {

// Keys in pages have a block table with an entry for each of their pages.
Status CheckPages(const AttentionProblem& problem, const Needs& needs);

// All sequences have the same prefix, or none; forward, of keys in one tensor
// or in lists, without ropes and without scales by row.
Status CheckPrefix(const AttentionProblem& problem, const Needs& needs);

}  // namespace flashacl
