// SPDX-License-Identifier: Apache-2.0
//
// Memory pools in the order of a stream. Not offered; the header exists so that
// programs which include it compile.
#pragma once

#include "acl/acl_base.h"
