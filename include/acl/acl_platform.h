// SPDX-License-Identifier: Apache-2.0
//
// Facts about the platform that the runtime does not already answer. Nothing is
// offered; the header exists so that programs which include it compile.
#pragma once

#include "acl/acl_base.h"
