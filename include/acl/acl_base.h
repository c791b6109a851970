// SPDX-License-Identifier: Apache-2.0
//
// What every other acl header builds on: handles, error codes, data types,
// formats, data buffers and tensor descriptions.
#pragma once

#include "acl/acl_base_mdl.h"
#include "acl/acl_base_rt.h"
#include "acl/error_codes/ge_error_codes.h"
#include "acl/error_codes/rt_error_codes.h"
