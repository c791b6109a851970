// SPDX-License-Identifier: Apache-2.0
// The scales of a prefill with 8-bit inputs or results.
#pragma once

#include "acl/executor.h"
#include "base/status.h"
#include "ops/prompt.h"

namespace flashacl::ops {

// kContradiction unless there are just those scales that the types need.
Status CheckScales(const Prompt& prompt);

// Puts them where the problem has them. After the check.
Status PlaceScales(const Prompt& prompt, acl::Lowered& lowered);

}  // namespace flashacl::ops
