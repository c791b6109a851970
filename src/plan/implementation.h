// SPDX-License-Identifier: Apache-2.0
// One way to compute. Backends list these best first; the last one of every
// backend is the reference, which takes every problem.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.h"
#include "plan/backend.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl {

struct Plan;

struct Implementation {
  std::string_view name;  // "backend/direction/key-format[/variant]"

  // Ok, or why not, in words a person can act on.
  Status (*supports)(const AttentionProblem& problem, const DeviceInfo& device);

  // Fills in schedule and workspace. Reads no device data.
  void (*prepare)(const DeviceInfo& device, Plan& plan);

  // Computes. `workspace` has plan.workspace.bytes() bytes, aligned to
  // WorkspaceLayout::kAlignmentBytes; null if that is 0.
  Status (*launch)(const Plan& plan, const Bindings& bindings,
                   std::byte* workspace, Workers& workers);
};

}  // namespace flashacl
