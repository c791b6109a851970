// SPDX-License-Identifier: Apache-2.0
//
// Queues of shared buffers between host and device. Not offered; the header
// exists so that programs which include it compile.
#pragma once

#include "acl/acl_base.h"
