// SPDX-License-Identifier: Apache-2.0
// What strict mode finds, and the process's exit code that may come of it.
#pragma once

#include <string_view>

#include "base/status.h"

namespace flashacl::acl {

// The exit code under FLASHACL_STRICT=exit where there were findings.
inline constexpr int kExitCode = 66;

// Counts a finding that leaves by a failing call, which says it.
void CountFinding() noexcept;

// The same of `status`, if it is one; returns it.
Status Found(Status status) noexcept;

// Tells of a call that runs and may mean something else: no finding.
void Advise(std::string_view operator_name, std::string_view text) noexcept;

// From now on the process ends with kExitCode if there were findings, where
// that is asked for; `last_look` is called before.
void JudgeAtExit(void (*last_look)());

}  // namespace flashacl::acl
