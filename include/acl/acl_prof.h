// SPDX-License-Identifier: Apache-2.0
//
// Profiling: a timeline of what threads and streams do between aclprofStart and
// aclprofStop, with marks and ranges of the caller, as one JSON file that
// Perfetto opens (docs/profiling.md). Unless a function says otherwise, a null
// pointer is 100000. Source: CANN acl API, "profiling".
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

// What to collect; flags of aclprofCreateConfig. The timeline is the same
// whatever they say.
#define ACL_PROF_ACL_API 0x0001ULL
#define ACL_PROF_TASK_TIME 0x0002ULL
#define ACL_PROF_AICORE_METRICS 0x0004ULL
#define ACL_PROF_AICPU 0x0008ULL
#define ACL_PROF_L2CACHE 0x0010ULL
#define ACL_PROF_HCCL_TRACE 0x0020ULL
#define ACL_PROF_TRAINING_TRACE 0x0040ULL
#define ACL_PROF_MSPROFTX 0x0080ULL
#define ACL_PROF_RUNTIME_API 0x0100ULL
#define ACL_PROF_GE_API_L0 0x0200ULL
#define ACL_PROF_TASK_TIME_L0 0x0800ULL
#define ACL_PROF_TASK_MEMORY 0x1000ULL
#define ACL_PROF_TASK_TIME_L2 0x2000ULL
#define ACL_PROF_OP_ATTR 0x4000ULL
#define ACL_PROF_TASK_TIME_L3 0x8000ULL
#define ACL_PROF_GE_API_L1 0x1000000ULL
#define ACL_PROF_API_STATS 0x400000000ULL
#define ACL_PROF_AICORE_SHAPE 0x800000000ULL

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

// What aclprofSetConfig sets, from ACL_PROF_STORAGE_LIMIT on.
typedef enum {
  ACL_PROF_ARGS_MIN = 0,
  ACL_PROF_STORAGE_LIMIT = 1,
  ACL_PROF_SYS_HARDWARE_MEM_FREQ = 3,
  ACL_PROF_LLC_MODE = 4,
  ACL_PROF_SYS_IO_FREQ = 5,
  ACL_PROF_SYS_INTERCONNECTION_FREQ = 6,
  ACL_PROF_DVPP_FREQ = 7,
  ACL_PROF_HOST_SYS = 8,
  ACL_PROF_HOST_SYS_USAGE = 9,
  ACL_PROF_HOST_SYS_USAGE_FREQ = 10,
  ACL_PROF_LOW_POWER_FREQ = 11,
  ACL_PROF_SYS_MEM_SERVICEFLOW = 12,
  ACL_PROF_SYS_CPU_FREQ = 13,
  ACL_PROF_OPTYPE = 14,
  ACL_PROF_NTS_METRICS = 15,
  ACL_PROF_PATH = 16,
} aclprofConfigType;

// Which end of a step aclprofGetStepTimestamp marks.
typedef enum {
  ACL_STEP_START = 0,
  ACL_STEP_END = 1,
} aclprofStepTag;

typedef struct aclprofConfig aclprofConfig;
typedef struct aclprofAicoreEvents aclprofAicoreEvents;
typedef struct aclprofStepInfo aclprofStepInfo;

// A tensor of an operator, of shapeDim lengths; type: what the tensor is to it.
typedef struct {
  uint32_t type;
  uint32_t format;
  uint32_t dataType;
  uint32_t shapeDim;
  uint32_t shape[8];
} aclprofTensor;

// An operator; its names are numbers of aclprofStr2Id.
typedef struct {
  uint64_t opNameId;
  uint64_t opTypeId;
  uint32_t resv;
  uint32_t tensorNum;
  uint32_t kernelType;
  uint32_t blockNums;
  void* stream;
  aclprofTensor* tensors;
} aclprofTensorInfo;

// What a range of aclprofRangePushEx is about. version 1; messageType 0: a
// tensorInfo.
typedef struct {
  uint16_t version;
  uint16_t size;  // of this structure, in bytes
  uint32_t messageType;
  union {
    aclprofTensorInfo* tensorInfo;
  } message;
} aclprofEventAttributes;

// From now on profiles can be started; they are written into the folder
// `profilerResultPath`, `length` characters. The folder is made if the one that
// it lies in exists; nothing is written into it yet. 100000: no path, or one of
// more than 4096 characters; 100002: called before; 100004: the folder cannot
// be made, or not be written.
ACL_FUNC_VISIBILITY aclError aclprofInit(const char* profilerResultPath,
                                         size_t length);

// Stops, and writes, what is not stopped. 100043: without aclprofInit; 100004:
// as aclprofStop; profiling has ended all the same.
ACL_FUNC_VISIBILITY aclError aclprofFinalize(void);

// What to profile: `deviceNums` devices, at most 64, or none, which is the host
// alone; their streams are in the timeline in any case. The caller destroys it.
// Null for a null list of some devices, events, or an unknown metric.
ACL_FUNC_VISIBILITY aclprofConfig* aclprofCreateConfig(
    uint32_t* deviceIdList, uint32_t deviceNums,
    aclprofAicoreMetrics aicoreMetrics, const aclprofAicoreEvents* aicoreEvents,
    uint64_t dataTypeConfig);
ACL_FUNC_VISIBILITY aclError
aclprofDestroyConfig(const aclprofConfig* profilerConfig);

// Starts the devices of `profilerConfig`. 100043: without aclprofInit; 100042:
// one of them is started already.
ACL_FUNC_VISIBILITY aclError aclprofStart(const aclprofConfig* profilerConfig);

// Stops them; when none is left, writes what has ended since the first start
// into flashacl_trace_<process>_<n>.json. 100043: without aclprofInit, or not
// started; 100004: the file cannot be written.
ACL_FUNC_VISIBILITY aclError aclprofStop(const aclprofConfig* profilerConfig);

// Sets `length` characters, at most 256. Nothing of them has an effect here.
// 100043: without aclprofInit; 100000: longer, or an unknown type.
ACL_FUNC_VISIBILITY aclError aclprofSetConfig(aclprofConfigType configType,
                                              const char* config,
                                              size_t configLength);

// A stamp: a text for marks and ranges. The caller destroys it.
ACL_FUNC_VISIBILITY void* aclprofCreateStamp(void);
ACL_FUNC_VISIBILITY void aclprofDestroyStamp(void* stamp);
ACL_FUNC_VISIBILITY aclError aclprofSetStampTraceMessage(void* stamp,
                                                         const char* msg,
                                                         uint32_t msgLen);

// Marks this moment.
ACL_FUNC_VISIBILITY aclError aclprofMark(void* stamp);

// Marks the moment at which `stream` (null: the default stream) comes here.
// 100000: no text, or more than 127 characters.
ACL_FUNC_VISIBILITY aclError aclprofMarkEx(const char* msg, size_t msgLen,
                                           aclrtStream stream);

// Begins a range of this thread, and ends the innermost one. To end none is no
// error.
ACL_FUNC_VISIBILITY aclError aclprofPush(void* stamp);
ACL_FUNC_VISIBILITY aclError aclprofPop(void);

// The same about an operator.
ACL_FUNC_VISIBILITY aclError
aclprofRangePushEx(aclprofEventAttributes* attributes);
ACL_FUNC_VISIBILITY aclError aclprofRangePop(void);

// A number for the text, never 0. Null is 0.
ACL_FUNC_VISIBILITY uint64_t aclprofStr2Id(const char* message);

// A range that any thread may end. *rangeId counts from 1; to end an unknown
// one is no error.
ACL_FUNC_VISIBILITY aclError aclprofRangeStart(void* stamp, uint32_t* rangeId);
ACL_FUNC_VISIBILITY aclError aclprofRangeStop(uint32_t rangeId);

// A step of training: begins and ends when streams come there. The caller
// destroys it. 100000: an unknown tag, or one that it had before.
ACL_FUNC_VISIBILITY aclprofStepInfo* aclprofCreateStepInfo(void);
ACL_FUNC_VISIBILITY void aclprofDestroyStepInfo(aclprofStepInfo* stepInfo);
ACL_FUNC_VISIBILITY aclError aclprofGetStepTimestamp(aclprofStepInfo* stepInfo,
                                                     aclprofStepTag tag,
                                                     aclrtStream stream);

#ifdef __cplusplus
}
#endif
