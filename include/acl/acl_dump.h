// SPDX-License-Identifier: Apache-2.0
//
// Dumping what operators read and write: records (docs/records.md), in the
// directory that the settings name. Source: CANN acl API, "data dump".
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Begins a time in which aclmdlSetDump may be called; nothing is recorded yet.
// 100001: before aclInit; 100002: it has begun; 100044: the file of aclInit has
// settings of a dump.
ACL_FUNC_VISIBILITY aclError aclmdlInitDump(void);

// Records, from now on, what the member "dump" of a JSON file says, instead of
// what the call before this one said; nothing, if there is none.
//   dumpCfgPath  the file's path
// 100000: null; 100003: the file cannot be read; 100006: it is no JSON object;
// 100009: a setting is wrong, or its directory cannot be written to; 100044:
// aclopStartDumpArgs records; 100045: before aclmdlInitDump.
ACL_FUNC_VISIBILITY aclError aclmdlSetDump(const char* dumpCfgPath);

// Ends it: returns when all that has run is on the file system. What is still
// queued on streams is not recorded. 100045: before aclmdlInitDump.
ACL_FUNC_VISIBILITY aclError aclmdlFinalizeDump(void);

// What aclopStartDumpArgs dumps.
#define ACL_OP_DUMP_OP_AICORE_ARGS 0x00000001U

// Records the parameters of operators, without contents of tensors.
//   dumpType  ACL_OP_DUMP_OP_AICORE_ARGS
//   path      a directory, which is made if only its last part is missing
// 100000: an argument is none of these; 100044: this or another dump goes on.
ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType,
                                                const char* path);
// Ends that. 100000: dumpType; 100045: nothing was started.
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);

#ifdef __cplusplus
}
#endif
