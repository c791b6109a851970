// SPDX-License-Identifier: Apache-2.0
//
// Contexts: what a thread works in. A context belongs to one device and has a
// default stream. Source: CANN acl API, "context management".
#pragma once

#include "acl/acl_base.h"
#include "acl/rt/system.h"

#ifdef __cplusplus
extern "C" {
#endif

// A new context with its own default stream, current for this thread. The
// caller destroys it. 107001: no such device.
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext* context,
                                                int32_t deviceId);

// Waits for the context's work and destroys it. A thread whose current context
// it was has none afterwards. 107002: a device's default context.
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);

// Makes the context current for this thread, and with it its device; several
// threads may share one. 107000: not a live context.
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);

// 107002: this thread has none.
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext* context);

// The default stream of the current context. Needs a context. Not to be
// destroyed.
ACL_FUNC_VISIBILITY aclError
aclrtCtxGetCurrentDefaultStream(aclrtStream* stream);

// *active = 1 if the device's default context exists. `flags` may be null.
ACL_FUNC_VISIBILITY aclError aclrtGetPrimaryCtxState(int32_t deviceId,
                                                     uint32_t* flags,
                                                     int32_t* active);

// An option of the current context, in front of the process's. Needs a context.
// 100000: not one of the first three options; 107021: Get before any Set.
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt,
                                                    int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt,
                                                    int64_t* value);

#ifdef __cplusplus
}
#endif
