// SPDX-License-Identifier: Apache-2.0
//
// Compiling single operators. There is nothing to compile here: options are
// kept without effect, and no operator is known by name (100024). Source: CANN
// acl API, "operator compilation".
#pragma once

#include "acl/acl_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_PRECISION_MODE = 0,
  ACL_AICORE_NUM = 1,
  ACL_AUTO_TUNE_MODE = 2,
  ACL_OP_SELECT_IMPL_MODE = 3,
  ACL_OPTYPELIST_FOR_IMPLMODE = 4,
  ACL_OP_DEBUG_LEVEL = 5,
  ACL_DEBUG_DIR = 6,
  ACL_OP_COMPILER_CACHE_MODE = 7,
  ACL_OP_COMPILER_CACHE_DIR = 8,
  ACL_OP_PERFORMANCE_MODE = 9,
  ACL_OP_JIT_COMPILE = 10,
  ACL_OP_DETERMINISTIC = 11,
  ACL_CUSTOMIZE_DTYPES = 12,
  ACL_OP_PRECISION_MODE = 13,
  ACL_ALLOW_HF32 = 14,
  ACL_PRECISION_MODE_V2 = 15,
  ACL_OP_DEBUG_OPTION = 16,
} aclCompileOpt;

typedef enum {
  ACL_OP_COMPILE_DEFAULT = 0,
  ACL_OP_COMPILE_FUZZ = 1,
} aclOpCompileFlag;

typedef struct aclGraphDumpOption aclGraphDumpOption;

// Keeps the text for the process. 100000: null; 200006: ACL_AUTO_TUNE_MODE;
// 500000: no enumerator.
ACL_FUNC_VISIBILITY aclError aclSetCompileopt(aclCompileOpt opt,
                                              const char* value);

// Bytes that aclGetCompileopt may need: 256 for ACL_OP_JIT_COMPILE, else those
// of the text that was set with its NUL, or 0.
ACL_FUNC_VISIBILITY size_t aclGetCompileoptSize(aclCompileOpt opt);

// ACL_OP_JIT_COMPILE: "disable", whatever was set; ACL_OP_DEBUG_OPTION: what
// was set, or "". 100000: null; 200001: another option; 500001: `length` bytes
// are too few.
ACL_FUNC_VISIBILITY aclError aclGetCompileopt(aclCompileOpt opt, char* value,
                                              size_t length);

// For one shape or for many: no effect. 100000: no enumerator.
ACL_FUNC_VISIBILITY aclError aclopSetCompileFlag(aclOpCompileFlag flag);

// Checks as aclopExecuteV2 does; then 200001: compileFlag is no enumerator, and
// 100000: opPath is null where it is ACL_COMPILE_UNREGISTERED.
ACL_FUNC_VISIBILITY aclError aclopCompileAndExecute(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
    const aclDataBuffer* const inputs[], int numOutputs,
    const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
    const aclopAttr* attr, aclopEngineType engineType,
    aclopCompileType compileFlag, const char* opPath, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclopCompileAndExecuteV2(
    const char* opType, int numInputs, aclTensorDesc* inputDesc[],
    aclDataBuffer* inputs[], int numOutputs, aclTensorDesc* outputDesc[],
    aclDataBuffer* outputs[], aclopAttr* attr, aclopEngineType engineType,
    aclopCompileType compileFlag, const char* opPath, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclopCompile(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
    int numOutputs, const aclTensorDesc* const outputDesc[],
    const aclopAttr* attr, aclopEngineType engineType,
    aclopCompileType compileFlag, const char* opPath);

// 100000: as aclopExecuteV2; null graphDumpPath; graphdumpOpt, which is to be
// null. Else 200001: operators have no graphs here.
ACL_FUNC_VISIBILITY aclError aclGenGraphAndDumpForOp(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
    const aclDataBuffer* const inputs[], int numOutputs,
    const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
    const aclopAttr* attr, aclopEngineType engineType,
    const char* graphDumpPath, const aclGraphDumpOption* graphdumpOpt);

// Creating: null, with a message, where there is no memory. Destroying: 100000
// for null, and for what is destroyed or none of ours.
ACL_FUNC_VISIBILITY aclGraphDumpOption* aclCreateGraphDumpOpt(void);
ACL_FUNC_VISIBILITY aclError
aclDestroyGraphDumpOpt(const aclGraphDumpOption* aclGraphDumpOpt);

#ifdef __cplusplus
}
#endif
