// SPDX-License-Identifier: Apache-2.0
//
// Single operators by name. Superseded by aclnnop/*.h and not offered: every
// function answers 207000 (creating: null). Source: CANN acl API, "single
// operator calls".
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclopAttr aclopAttr;

// Which unit runs an operator, and how its binary is found.
typedef enum {
  ACL_ENGINE_SYS = 0,
  ACL_ENGINE_AICORE = 1,
  ACL_ENGINE_VECTOR = 2,
} aclopEngineType;

typedef enum {
  ACL_COMPILE_SYS = 0,
  ACL_COMPILE_UNREGISTERED = 1,
} aclopCompileType;

ACL_FUNC_VISIBILITY aclError aclopSetModelDir(const char* modelDir);
ACL_FUNC_VISIBILITY aclError aclopLoad(const void* model, size_t modelSize);
ACL_FUNC_VISIBILITY aclopAttr* aclopCreateAttr(void);
ACL_FUNC_VISIBILITY void aclopDestroyAttr(const aclopAttr* attr);
ACL_FUNC_VISIBILITY aclError aclopSetAttrBool(aclopAttr* attr,
                                              const char* attrName,
                                              uint8_t attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrInt(aclopAttr* attr,
                                             const char* attrName,
                                             int64_t attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrFloat(aclopAttr* attr,
                                               const char* attrName,
                                               float attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrString(aclopAttr* attr,
                                                const char* attrName,
                                                const char* attrValue);
ACL_FUNC_VISIBILITY aclError aclopExecuteV2(
    const char* opType, int numInputs, aclTensorDesc* inputDesc[],
    aclDataBuffer* inputs[], int numOutputs, aclTensorDesc* outputDesc[],
    aclDataBuffer* outputs[], aclopAttr* attr, aclrtStream stream);

#ifdef __cplusplus
}
#endif
