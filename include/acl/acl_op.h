// SPDX-License-Identifier: Apache-2.0
//
// Single operators by name. Programs may describe a call in full, and are told
// that the operator is not there (100024): operators run by their functions in
// aclnnop/*.h. Source: CANN acl API, "single operator calls".
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

// A folder of compiled operators, of which none can run here. 100000: null;
// 100002: called before with success; 100014: no folder that can be read.
ACL_FUNC_VISIBILITY aclError aclopSetModelDir(const char* modelDir);

// One compiled operator. 100000: null, or no bytes; else 100016.
ACL_FUNC_VISIBILITY aclError aclopLoad(const void* model, size_t modelSize);

// Attributes by name. All values are copied; the same name replaces. Not to be
// changed by one thread while another uses them. Creating: null, with a
// message, where there is no memory. Destroying null is fine.
ACL_FUNC_VISIBILITY aclopAttr* aclopCreateAttr(void);
ACL_FUNC_VISIBILITY void aclopDestroyAttr(const aclopAttr* attr);

// 100000: null attr, attrName or text; attributes that are destroyed or none of
// ours; in lists a negative count, or a null pointer where the count is not 0.
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
ACL_FUNC_VISIBILITY aclError aclopSetAttrDataType(aclopAttr* attr,
                                                  const char* attrName,
                                                  aclDataType attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListBool(aclopAttr* attr,
                                                  const char* attrName,
                                                  int numValues,
                                                  const uint8_t* values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListInt(aclopAttr* attr,
                                                 const char* attrName,
                                                 int numValues,
                                                 const int64_t* values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListFloat(aclopAttr* attr,
                                                   const char* attrName,
                                                   int numValues,
                                                   const float* values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListString(aclopAttr* attr,
                                                    const char* attrName,
                                                    int numValues,
                                                    const char** values);
ACL_FUNC_VISIBILITY aclError
aclopSetAttrListDataType(aclopAttr* attr, const char* attrName, int numValues,
                         const aclDataType values[]);
ACL_FUNC_VISIBILITY aclError
aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists,
                        const int* numValues, const int64_t* const values[]);

// Runs an operator; the second, which is older, does not write back shapes. In
// this order, 100000: null opType, a negative count, a null array or entry, one
// that is destroyed or none of ours. 0 where there are outputs and each has an
// extent of 0. Else 100024.
ACL_FUNC_VISIBILITY aclError aclopExecuteV2(
    const char* opType, int numInputs, aclTensorDesc* inputDesc[],
    aclDataBuffer* inputs[], int numOutputs, aclTensorDesc* outputDesc[],
    aclDataBuffer* outputs[], aclopAttr* attr, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclopExecute(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
    const aclDataBuffer* const inputs[], int numOutputs,
    const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
    const aclopAttr* attr, aclrtStream stream);

#ifdef __cplusplus
}
#endif
