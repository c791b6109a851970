// SPDX-License-Identifier: Apache-2.0
//
// Dumping what operators read and write. Nothing is ever dumped; the functions
// answer 0 because frameworks call them when they start. Source: CANN acl API,
// "data dump".
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclError aclmdlInitDump(void);
ACL_FUNC_VISIBILITY aclError aclmdlSetDump(const char* dumpCfgPath);
ACL_FUNC_VISIBILITY aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif
