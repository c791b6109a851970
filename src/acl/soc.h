// SPDX-License-Identifier: Apache-2.0
// Which chip programs are told that they run on.
#pragma once

#include <string_view>

#include "acl/acl_base.h"

namespace flashacl::acl {

// Whether CANN knows a chip of that name, such as "Ascend910B1".
bool IsSocName(std::string_view name);

// The one of FLASHACL_SOC; an Ascend 910B1 if that is not set, or no name of a
// chip. Lives as long as the process.
const char* SocName();

// 0, or 507008 with a message that lists the names, if FLASHACL_SOC has none.
aclError RequireSoc(std::string_view function);

}  // namespace flashacl::acl
