// SPDX-License-Identifier: Apache-2.0
//
// The one header a program that uses the runtime includes. Operators and their
// tensors come from the headers in aclnnop/.
#pragma once

#include "acl/acl_mdl.h"
#include "acl/acl_op.h"
#include "acl/acl_rt.h"
