// SPDX-License-Identifier: Apache-2.0
// One line per plan and per launch, into the file FLASHACL_TRACE names, unless
// that is to be a timeline (acl/profile/trace_file.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/computation.h"
#include "plan/plan.h"

namespace flashacl::acl {

// Whether anybody asked for these lines; the rest need not be called otherwise.
bool Tracing();

// Appends "<seconds> <what> <operator> <problem line> <implementation>
// <microseconds>"; `what` is "plan" or "launch". Failures to write are ignored:
// a trace must not change what a program does.
void Trace(std::string_view what, std::string_view operator_name,
           const Plan& plan, double microseconds) noexcept;
// The same with the computation's own line, and its name.
void Trace(std::string_view what, std::string_view operator_name,
           const Computation& computation, double microseconds) noexcept;

// "<seconds> <what> <operator> failed "<message>"" if the status is a failure;
// returns it.
Status Traced(std::string_view what, std::string_view operator_name,
              Status status) noexcept;

}  // namespace flashacl::acl
