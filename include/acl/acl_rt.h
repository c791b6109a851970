// SPDX-License-Identifier: Apache-2.0
//
// The runtime, by topic. Rules that hold for every function here:
// - it returns aclError, 0 on success, and writes its outputs only then;
// - it may be called from any thread, and no exception leaves it;
// - a null output or handle is 100000 (ACL_ERROR_INVALID_PARAM);
// - "needs a context" means: 107002 (ACL_ERROR_RT_CONTEXT_NULL) unless the
//   calling thread has a current context (aclrtSetDevice gives it one);
// - after a failure aclGetRecentErrMsg says what was wrong, in words.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "acl/acl_rt_allocator.h"
#include "acl/rt/callback.h"
#include "acl/rt/context.h"
#include "acl/rt/device.h"
#include "acl/rt/event.h"
#include "acl/rt/graph.h"
#include "acl/rt/kernel.h"
#include "acl/rt/memory.h"
#include "acl/rt/memory_copy.h"
#include "acl/rt/memory_map.h"
#include "acl/rt/notify.h"
#include "acl/rt/share.h"
#include "acl/rt/stream.h"
#include "acl/rt/system.h"
