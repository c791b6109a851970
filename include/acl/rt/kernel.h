// SPDX-License-Identifier: Apache-2.0
//
// Loading and launching the caller's own kernels, and their overflow flags.
// Binaries for the NPU cannot run here: every function answers 207000 (creating
// a binary: null). Source: CANN acl API, "kernel loading and execution".
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclrtBinary aclrtCreateBinary(const void* data,
                                                  size_t dataLen);
ACL_FUNC_VISIBILITY aclError aclrtDestroyBinary(aclrtBinary binary);
ACL_FUNC_VISIBILITY aclError aclrtBinaryLoad(const aclrtBinary binary,
                                             aclrtBinHandle* binHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle);
ACL_FUNC_VISIBILITY aclError
aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char* kernelName,
                       aclrtFuncHandle* funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle,
                                               uint32_t blockDim,
                                               const void* argsData,
                                               size_t argsSize,
                                               aclrtStream stream);

// The overflow flags of what ran on a stream, `outputSize` bytes at the device
// address `outputAddr`.
ACL_FUNC_VISIBILITY aclError aclrtGetOverflowStatus(void* outputAddr,
                                                    size_t outputSize,
                                                    aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtResetOverflowStatus(aclrtStream stream);

#ifdef __cplusplus
}
#endif
