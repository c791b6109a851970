// SPDX-License-Identifier: Apache-2.0
//
// Dumping what operators read and write. Nothing is ever dumped; the functions
// that frameworks call when they start answer 0. Source: CANN acl API, "data
// dump".
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclError aclmdlInitDump(void);
ACL_FUNC_VISIBILITY aclError aclmdlSetDump(const char* dumpCfgPath);
ACL_FUNC_VISIBILITY aclError aclmdlFinalizeDump(void);

// What aclopStartDumpArgs dumps.
#define ACL_OP_DUMP_OP_AICORE_ARGS 0x00000001U

// Arguments of operators, into a folder: 200006.
ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType,
                                                const char* path);
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);

#ifdef __cplusplus
}
#endif
