// SPDX-License-Identifier: Apache-2.0
// The scales of a decode with 8-bit keys or results.
#pragma once

#include "acl/executor.h"
#include "base/status.h"
#include "ops/incre.h"

namespace flashacl::ops {

// kContradiction unless there are just those scales that the types need.
Status CheckScales(const Incre& incre);

// Puts them where the problem has them. After the check.
Status PlaceScales(const Incre& incre, acl::Lowered& lowered);

}  // namespace flashacl::ops
