// SPDX-License-Identifier: Apache-2.0
//
// Profiling. Nothing is measured; functions that return aclError answer 0
// because frameworks call them when they start, the others null. Source: CANN
// acl API, "profiling".
#pragma once

#include "acl/acl_base.h"

// What to collect; flags of aclprofCreateConfig.
#define ACL_PROF_ACL_API 0x0001ULL
#define ACL_PROF_TASK_TIME 0x0002ULL
#define ACL_PROF_AICORE_METRICS 0x0004ULL
#define ACL_PROF_AICPU 0x0008ULL
#define ACL_PROF_L2CACHE 0x0010ULL
#define ACL_PROF_HCCL_TRACE 0x0020ULL
#define ACL_PROF_TRAINING_TRACE 0x0040ULL
#define ACL_PROF_MSPROFTX 0x0080ULL
#define ACL_PROF_RUNTIME_API 0x0100ULL

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_AICORE_ARITHMETIC_UTILIZATION = 0,
  ACL_AICORE_PIPE_UTILIZATION = 1,
  ACL_AICORE_MEMORY_BANDWIDTH = 2,
  ACL_AICORE_L0B_AND_WIDTH = 3,
  ACL_AICORE_RESOURCE_CONFLICT_RATIO = 4,
  ACL_AICORE_MEMORY_UB = 5,
  ACL_AICORE_L2_CACHE = 6,
  ACL_AICORE_PIPE_EXECUTE_UTILIZATION = 7,
  ACL_AICORE_MEMORY_ACCESS = 8,
  ACL_AICORE_NONE = 0xFF,
} aclprofAicoreMetrics;

typedef struct aclprofConfig aclprofConfig;
typedef struct aclprofAicoreEvents aclprofAicoreEvents;

ACL_FUNC_VISIBILITY aclError aclprofInit(const char* profilerResultPath,
                                         size_t length);
ACL_FUNC_VISIBILITY aclError aclprofFinalize(void);
ACL_FUNC_VISIBILITY aclprofConfig* aclprofCreateConfig(
    uint32_t* deviceIdList, uint32_t deviceNums,
    aclprofAicoreMetrics aicoreMetrics, const aclprofAicoreEvents* aicoreEvents,
    uint64_t dataTypeConfig);
ACL_FUNC_VISIBILITY aclError
aclprofDestroyConfig(const aclprofConfig* profilerConfig);
ACL_FUNC_VISIBILITY aclError aclprofStart(const aclprofConfig* profilerConfig);
ACL_FUNC_VISIBILITY aclError aclprofStop(const aclprofConfig* profilerConfig);

// Marks of the caller in the profile.
ACL_FUNC_VISIBILITY void* aclprofCreateStamp(void);
ACL_FUNC_VISIBILITY void aclprofDestroyStamp(void* stamp);
ACL_FUNC_VISIBILITY aclError aclprofSetStampTraceMessage(void* stamp,
                                                         const char* msg,
                                                         uint32_t msgLen);
ACL_FUNC_VISIBILITY aclError aclprofMark(void* stamp);
ACL_FUNC_VISIBILITY aclError aclprofPush(void* stamp);
ACL_FUNC_VISIBILITY aclError aclprofPop(void);
ACL_FUNC_VISIBILITY aclError aclprofRangeStart(void* stamp, uint32_t* rangeId);
ACL_FUNC_VISIBILITY aclError aclprofRangeStop(uint32_t rangeId);

#ifdef __cplusplus
}
#endif
