// SPDX-License-Identifier: Apache-2.0
// Strict mode's advice: calls of attention that run, and may mean something
// else than they say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl::acl {

// kInvalidArgument where no number can come out.
Status CheckNumbers(const AttentionProblem& problem);

// What to tell of the lengths, masks and scales of one run. On the host, where
// device memory may be touched.
std::vector<std::string> AdviceOn(const AttentionProblem& problem,
                                  const Bindings& bindings);

// Tells each advice once per process.
void AdviseOnce(std::string_view operator_name, const std::string& advice);

}  // namespace flashacl::acl
