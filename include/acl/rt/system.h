// SPDX-License-Identifier: Apache-2.0
//
// Initialising and finalising, versions, process-wide options, and what went
// wrong. Source: CANN acl API, "initialisation", "system configuration" and
// "exception handling".
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_DEVICE = 0,
  ACL_HOST = 1,
} aclrtRunMode;

typedef enum {
  ACL_OPT_DETERMINISTIC = 0,
  ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
  ACL_OPT_STRONG_CONSISTENCY = 2,
  ACL_OPT_ENABLE_KERNEL_EARLY_START = 3,
} aclSysParamOpt;

typedef enum {
  ACL_RT_THREAD_LEVEL = 0,
} aclrtLastErrLevel;

typedef enum {
  ACL_PKG_NAME_CANN = 0,
  ACL_PKG_NAME_RUNTIME = 1,
  ACL_PKG_NAME_COMPILER = 2,
  ACL_PKG_NAME_HCCL = 3,
  ACL_PKG_NAME_TOOLKIT = 4,
  ACL_PKG_NAME_OPP = 5,
  ACL_PKG_NAME_OPP_KERNEL = 6,
  ACL_PKG_NAME_DRIVER = 7,
} aclCANNPackageName;

// The version of one package, whole and in its parts.
typedef struct {
  char version[ACL_PKG_VERSION_MAX_SIZE];
  char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
  char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
  char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
  char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
  char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

// Whose initialisation or finalisation a callback wants to follow.
typedef enum {
  ACL_REG_TYPE_ACL_MODEL = 0,
  ACL_REG_TYPE_ACL_OP_EXECUTOR = 1,
  ACL_REG_TYPE_ACL_OP_CBLAS = 2,
  ACL_REG_TYPE_ACL_OP_COMPILER = 3,
  ACL_REG_TYPE_ACL_TDT_CHANNEL = 4,
  ACL_REG_TYPE_ACL_TDT_QUEUE = 5,
  ACL_REG_TYPE_ACL_DVPP = 6,
  ACL_REG_TYPE_ACL_RETR = 7,
  ACL_REG_TYPE_OTHER = 0xFFFF,
} aclRegisterCallbackType;

typedef struct {
  uint32_t flags;
  char reserved[60];
} aclrtSnapShotBackupArgs;

typedef struct {
  uint32_t flags;
  char reserved[60];
} aclrtSnapShotRestoreArgs;

// `configStr` is the text aclInit read, `len` bytes, alive during the call
// only.
typedef aclError (*aclInitCallbackFunc)(const char* configStr, size_t len,
                                        void* userData);
typedef aclError (*aclFinalizeCallbackFunc)(void* userData);

// Starts the runtime. `configPath` names a JSON file, or is null or empty.
// 100002 if already initialised (counted; callers may ignore it), 100003
// unreadable file, 100006 not JSON, 100000 another configuration than before,
// 507008 FLASHACL_SOC names no chip.
ACL_FUNC_VISIBILITY aclError aclInit(const char* configPath);

// Ends the runtime whatever the count. 100037 if already ended.
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

// Takes back one aclInit and ends the runtime with the last. *refCount, if not
// null, receives what is left. 100037 if nothing was left.
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t* refCount);

// Calls back when the runtime is initialised, at once if it already is. A
// non-zero answer is ignored. 100000: null function or unknown type.
ACL_FUNC_VISIBILITY aclError aclInitCallbackRegister(
    aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void* userData);
ACL_FUNC_VISIBILITY aclError aclInitCallbackUnRegister(
    aclRegisterCallbackType type, aclInitCallbackFunc cbFunc);

// Calls back when the runtime is finalised.
ACL_FUNC_VISIBILITY aclError
aclFinalizeCallbackRegister(aclRegisterCallbackType type,
                            aclFinalizeCallbackFunc cbFunc, void* userData);
ACL_FUNC_VISIBILITY aclError aclFinalizeCallbackUnRegister(
    aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc);

// The messages queued by this thread's failures, newest first, and forgets
// them; null when there are none. The text belongs to the library and lives
// until this thread's next call.
ACL_FUNC_VISIBILITY const char* aclGetRecentErrMsg(void);

// The last failing runtime code of this thread, 0 if none. Get also forgets it.
// 100000: another level than ACL_RT_THREAD_LEVEL.
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);

// The version of the acl API: 1, 17, 0.
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t* majorVersion,
                                             int32_t* minorVersion,
                                             int32_t* patchVersion);

// The version of an installed package, from share/info/<pkgName>/version.info.
// `versionStr` has room for ACL_PKG_VERSION_MAX_SIZE bytes. 100003: no such
// package.
ACL_FUNC_VISIBILITY aclError aclsysGetVersionStr(char* pkgName,
                                                 char* versionStr);
ACL_FUNC_VISIBILITY aclError aclsysGetVersionNum(char* pkgName,
                                                 int32_t* versionNum);
ACL_FUNC_VISIBILITY aclError
aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version);

// The name of the chip programs should believe to run on: that of FLASHACL_SOC,
// or Ascend910B1. Never null, never to be freed.
ACL_FUNC_VISIBILITY const char* aclrtGetSocName(void);

// ACL_HOST: callers run on the host.
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode* runMode);

// An option of the process, 0 until set; operators read it when planning.
// 100000: unknown option.
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt,
                                                 int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt,
                                                 int64_t* value);

// Not offered (207000): freezing the process `pid` to save and restore it.
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessLock(int pid, void* reserve);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessUnlock(int pid, void* reserve);
ACL_FUNC_VISIBILITY aclError
aclrtSnapShotProcessBackup(int pid, aclrtSnapShotBackupArgs* args);
ACL_FUNC_VISIBILITY aclError
aclrtSnapShotProcessRestore(int pid, aclrtSnapShotRestoreArgs* args);

#ifdef __cplusplus
}
#endif
