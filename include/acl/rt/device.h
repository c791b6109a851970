// SPDX-License-Identifier: Apache-2.0
//
// Devices: choosing, releasing, waiting for and asking about them. Source: CANN
// acl API, "device management".
#pragma once

#include "acl/acl_base.h"

#define ACL_DEV_FEATURE_NOT_SUPPORT 0x00000000
#define ACL_DEV_FEATURE_SUPPORT 0x00000001

// How two devices are connected.
#define ACL_RT_DEVS_TOPOLOGY_HCCS 0x01ULL
#define ACL_RT_DEVS_TOPOLOGY_PIX 0x02ULL
#define ACL_RT_DEVS_TOPOLOGY_PIB 0x04ULL
#define ACL_RT_DEVS_TOPOLOGY_PHB 0x08ULL
#define ACL_RT_DEVS_TOPOLOGY_SYS 0x10ULL
#define ACL_RT_DEVS_TOPOLOGY_SIO 0x20ULL
#define ACL_RT_DEVS_TOPOLOGY_HCCS_SW 0x40ULL

#define ACL_RT_MEM_UCE_INFO_MAX_NUM 20

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_TS_ID_AICORE = 0,
  ACL_TS_ID_AIVECTOR = 1,
  ACL_TS_ID_RESERVED = 2,
} aclrtTsId;

// What arithmetic does when a result is too large.
typedef enum {
  ACL_RT_OVERFLOW_MODE_SATURATION = 0,
  ACL_RT_OVERFLOW_MODE_INFNAN = 1,
  ACL_RT_OVERFLOW_MODE_UNDEF = 2,
} aclrtFloatOverflowMode;

typedef enum {
  ACL_RT_DEVICE_STATUS_NORMAL = 0,
  ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
  ACL_RT_DEVICE_STATUS_END = 0xFFFF,
} aclrtDeviceStatus;

typedef enum {
  ACL_RT_DEV_RES_CUBE_CORE = 0,
  ACL_RT_DEV_RES_VECTOR_CORE = 1,
} aclrtDevResLimitType;

// Numbers 205 to 212 are limits of grids and blocks and are answered with 0.
typedef enum {
  ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
  ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
  ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
  ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
  ACL_DEV_ATTR_WARP_SIZE = 202,
  ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE = 203,
  ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,
  ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
  ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
  ACL_DEV_ATTR_SMP_ID = 401,
  ACL_DEV_ATTR_PHY_CHIP_ID = 402,
  ACL_DEV_ATTR_SUPER_POD_DEVICE_ID = 403,
  ACL_DEV_ATTR_SUPER_POD_DEVIDE_ID = 403,  // an older spelling
  ACL_DEV_ATTR_SUPER_POD_SERVER_ID = 404,
  ACL_DEV_ATTR_SUPER_POD_ID = 405,
  ACL_DEV_ATTR_CUST_OP_PRIVILEGE = 406,
  ACL_DEV_ATTR_MAINBOARD_ID = 407,
  ACL_DEV_ATTR_HD_CONNECT_TYPE = 408,     // PCIe 0, HCCS 1, UB 2
  ACL_DEV_ATTR_DEVICE_FORM_FACTOR = 409,  // pod 0, A+K 1, A+X 2, PCIe card 3
  ACL_DEV_ATTR_IS_VIRTUAL = 501,
  ACL_DEV_ATTR_NPU_ARCH = 601,
} aclrtDevAttr;

// Load in percent; -1 where it is not known.
typedef struct {
  int32_t cubeUtilization;
  int32_t vectorUtilization;
  int32_t aicpuUtilization;
  int32_t memoryUtilization;
  void* utilizationExtend;
} aclrtUtilizationInfo;

typedef struct {
  char bytes[16];
} aclrtUuid;

// What kind of error a device has.
typedef enum {
  ACL_RT_NO_ERROR = 0,
  ACL_RT_ERROR_MEMORY = 1,
  ACL_RT_ERROR_L2 = 2,
  ACL_RT_ERROR_AICORE = 3,
  ACL_RT_ERROR_LINK = 4,
  ACL_RT_ERROR_L3_PORT = 5,
  ACL_RT_ERROR_OTHERS = 0xFFFF,
} aclrtErrorType;

typedef enum {
  ACL_RT_AICORE_ERROR_UNKNOWN = 0,
  ACL_RT_AICORE_ERROR_SW = 1,
  ACL_RT_AICORE_ERROR_HW_LOCAL = 2,
} aclrtAicoreErrorType;

// Memory with an error that could not be corrected: `len` bytes at `addr`.
// `reserved` is zeros.
typedef struct {
  void* addr;
  size_t len;
  size_t reserved[14];
} aclrtMemUceInfo;

typedef struct {
  size_t arraySize;
  aclrtMemUceInfo memUceInfoArray[ACL_RT_MEM_UCE_INFO_MAX_NUM];
} aclrtMemUceInfoArray;

// An error of a device; whether it can be repaired, and whether `detail` says
// more.
typedef struct {
  uint8_t tryRepair;
  uint8_t hasDetail;
  uint8_t reserved[2];
  aclrtErrorType errorType;
  union {
    aclrtMemUceInfoArray uceInfo;
    aclrtAicoreErrorType aicoreErrType;
  } detail;
} aclrtErrorInfo;

// Before and after the tasks of a device are aborted.
typedef enum {
  ACL_RT_DEVICE_TASK_ABORT_PRE = 0,
  ACL_RT_DEVICE_TASK_ABORT_POST = 1,
} aclrtDeviceTaskAbortStage;

// What it returns has no effect.
typedef int32_t (*aclrtDeviceTaskAbortCallback)(int32_t deviceId,
                                                aclrtDeviceTaskAbortStage stage,
                                                uint32_t timeout, void* args);

// Makes the device's default context, created at the first call and shared by
// all threads, current for this thread; counts one use. 107001: no such device;
// 507008: FLASHACL_SOC names no chip.
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);

// Takes back one use; with the last, waits for the default context's work and
// destroys it and its streams. 107001: no such device; 507007: not in use.
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);

// The same at once, whatever the count. 507007: not in use.
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);

// The device of the current context. 107002: this thread has none.
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t* deviceId);

// How many devices this process may use; their ids are 0 to count - 1.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t* count);

// Waits for all streams of the current context. Needs a context.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);

// The same for at most `timeout` milliseconds, -1 for ever. 507046: too late;
// 107000: 0 or less than -1.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

// Accepted without effect. 107000: unknown id.
ACL_FUNC_VISIBILITY aclError aclrtSetTsDevice(aclrtTsId tsId);

// 107001: no such device.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceUtilizationRate(
    int32_t deviceId, aclrtUtilizationInfo* utilizationInfo);
ACL_FUNC_VISIBILITY aclError
aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus);

// One fact about a device; sizes in bytes. 107001: no such device; 107000:
// unknown attribute.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId,
                                                aclrtDevAttr attr,
                                                int64_t* value);

// Stored, without effect; ACL_RT_OVERFLOW_MODE_INFNAN until set.
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);
ACL_FUNC_VISIBILITY aclError
aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode);

// Whether one device reaches the other's memory: 1, as all devices are this
// machine. 100000: the same device; 107001: no such device; 107000: null.
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer,
                                                      int32_t deviceId,
                                                      int32_t peerDeviceId);
// Lets the current device reach the peer's memory, and ends that; doing so
// again changes nothing. Kept for the program: memory is reached anyhow.
// 100000: the current device itself; 200006: flags other than 0; 107001: no
// such device.
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId,
                                                         uint32_t flags);
ACL_FUNC_VISIBILITY aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);
// *status = 1 while it is enabled, else 0. 107000: the same device, or none.
ACL_FUNC_VISIBILITY aclError aclrtDevicePeerAccessStatus(int32_t deviceId,
                                                         int32_t peerDeviceId,
                                                         int32_t* status);

// How two devices are connected, ACL_RT_DEVS_TOPOLOGY_*. 107001: no such
// device.
ACL_FUNC_VISIBILITY aclError aclrtGetDevicesTopo(uint32_t deviceId,
                                                 uint32_t otherDeviceId,
                                                 uint64_t* value);

// From one numbering of devices to another: as this process counts (user), as
// the machine counts (logic), as the hardware does (phy).
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByUserDevId(
    const int32_t userDevid, int32_t* const logicDevId);
ACL_FUNC_VISIBILITY aclError aclrtGetUserDevIdByLogicDevId(
    const int32_t logicDevId, int32_t* const userDevid);
ACL_FUNC_VISIBILITY aclError
aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t* const phyDevId);
ACL_FUNC_VISIBILITY aclError
aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t* const logicDevId);
ACL_FUNC_VISIBILITY aclError
aclrtGetPhyDevIdByUserDevId(const int32_t userDevid, int32_t* const phyDevId);
ACL_FUNC_VISIBILITY aclError
aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t* const userDevid);

// How many cores work on a device may use; the hardware's number until set.
// 107001: no such device; 107000: unknown type.
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceResLimit(int32_t deviceId,
                                                    aclrtDevResLimitType type,
                                                    uint32_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceResLimit(int32_t deviceId,
                                                    aclrtDevResLimitType type,
                                                    uint32_t* value);
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceResLimit(int32_t deviceId);

// The limit that holds for what this thread plans: its stream's, else the
// device's, else the hardware's.
ACL_FUNC_VISIBILITY aclError
aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value);

// The range of stream priorities: 7 and 0.
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetStreamPriorityRange(
    int32_t* leastPriority, int32_t* greatestPriority);

// Drops what is queued on every stream of the device, makes running tasks give
// up their waits, and waits for their ends, at most `timeout` milliseconds, 0
// for ever. Threads that wait for the device's streams and events get 107022,
// and so do calls that submit or synchronize, until aclrtSetDevice,
// aclrtResetDevice or aclrtRepairError, after this call has returned. 507046: a
// task did not end in time; 107000: more than 36 minutes; 107001: no such
// device.
ACL_FUNC_VISIBILITY aclError aclrtDeviceTaskAbort(int32_t deviceId,
                                                  uint32_t timeout);

// Calls back before and after that, on its thread; `regName` names the
// callback, and a null one removes it. 100000: no name.
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceTaskAbortCallback(
    const char* regName, aclrtDeviceTaskAbortCallback callback, void* args);

// What is wrong with the device: ACL_RT_ERROR_OTHERS after one of its tasks has
// failed, which cannot be repaired, else nothing. 107001: no such device.
ACL_FUNC_VISIBILITY aclError aclrtGetErrorVerbose(int32_t deviceId,
                                                  aclrtErrorInfo* errorInfo);
// Forgets that, and that tasks were aborted. 107000: tryRepair is 0, or the
// type is none of NO_ERROR, MEMORY and LINK; 107001: no such device.
ACL_FUNC_VISIBILITY aclError aclrtRepairError(int32_t deviceId,
                                              const aclrtErrorInfo* errorInfo);

// Memory with errors: none is known here, *retSize = 0. 107001: no such device.
ACL_FUNC_VISIBILITY aclError
aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray,
                   size_t arraySize, size_t* retSize);
// Checks its arguments, and has no effect. 100000: more than
// ACL_RT_MEM_UCE_INFO_MAX_NUM entries, or `reserved` not zeros; 107001: no such
// device.
ACL_FUNC_VISIBILITY aclError aclrtMemUceRepair(int32_t deviceId,
                                               aclrtMemUceInfo* memUceInfoArray,
                                               size_t arraySize);

// The same 16 bytes whenever this machine is asked about this device, and
// others for others. 107001: no such device.
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetUuid(int32_t deviceId,
                                                aclrtUuid* uuid);

// The number of the calling process, for whom it shares memory with.
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetBareTgid(int32_t* pid);

#ifdef __cplusplus
}
#endif
