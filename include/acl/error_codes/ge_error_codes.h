// SPDX-License-Identifier: Apache-2.0
//
// Codes of the graph engine that runtime callers meet.
// Source: CANN acl API, "aclError", graph engine codes.
#pragma once

#include "acl/error_codes/acl_error_codes.h"

#define ACL_ERROR_GE_PARAM_INVALID 145000
#define ACL_ERROR_GE_INTERNAL_ERROR 545000
