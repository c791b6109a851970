// SPDX-License-Identifier: Apache-2.0
//
// Memory of the device and pinned memory of the host: reserving, releasing and
// asking about it. Sizes are bytes. Blocks start at multiples of 64 and their
// content is undefined. Source: CANN acl API, "memory management".
#pragma once

#include "acl/acl_base.h"

// Kinds that aclrtCheckMemType can be asked for; may be combined.
#define ACL_RT_MEM_TYPE_DEV 0x00000002U
#define ACL_RT_MEM_TYPE_DVPP 0x00000008U
#define ACL_RT_MEM_TYPE_RSVD 0x00000010U

// Flags of aclrtHostRegisterV2.
#define ACL_HOST_REG_MAPPED 0x00000002U
#define ACL_HOST_REG_IOMEMORY 0x00000004U
#define ACL_HOST_REG_READONLY 0x00000008U
#define ACL_HOST_REG_PINNED 0x10000000U

#ifdef __cplusplus
extern "C" {
#endif

// Which pages a block prefers; all are accepted and give the same memory.
typedef enum {
  ACL_MEM_MALLOC_HUGE_FIRST = 0,
  ACL_MEM_MALLOC_HUGE_ONLY = 1,
  ACL_MEM_MALLOC_NORMAL_ONLY = 2,
  ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
  ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
  ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
  ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
  ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
  ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
  ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
  ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000,
} aclrtMemMallocPolicy;

// Which memory aclrtGetMemInfo is asked about; all name the same.
typedef enum {
  ACL_DDR_MEM = 0,
  ACL_HBM_MEM = 1,
  ACL_DDR_MEM_HUGE = 2,
  ACL_DDR_MEM_NORMAL = 3,
  ACL_HBM_MEM_HUGE = 4,
  ACL_HBM_MEM_NORMAL = 5,
  ACL_DDR_MEM_P2P_HUGE = 6,
  ACL_DDR_MEM_P2P_NORMAL = 7,
  ACL_HBM_MEM_P2P_HUGE = 8,
  ACL_HBM_MEM_P2P_NORMAL = 9,
  ACL_HBM_MEM_HUGE1G = 10,
  ACL_HBM_MEM_P2P_HUGE1G = 11,
  ACL_MEM_NORMAL = 12,
  ACL_MEM_HUGE = 13,
  ACL_MEM_HUGE1G = 14,
  ACL_MEM_P2P_NORMAL = 15,
  ACL_MEM_P2P_HUGE = 16,
  ACL_MEM_P2P_HUGE1G = 17,
} aclrtMemAttr;

typedef enum {
  ACL_MEM_LOCATION_TYPE_HOST = 0,
  ACL_MEM_LOCATION_TYPE_DEVICE = 1,
  ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2,
  ACL_MEM_LOCATION_TYPE_MANAGED = 3,
  ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4,
} aclrtMemLocationType;

typedef enum {
  ACL_HOST_REGISTER_MAPPED = 0,
  ACL_HOST_REGISTER_IOMEMORY = 4,
  ACL_HOST_REGISTER_READONLY = 8,
} aclrtHostRegisterType;

typedef enum {
  ACL_RT_MEM_ATTR_RSV = 0,
  ACL_RT_MEM_ATTR_MODULE_ID = 1,
  ACL_RT_MEM_ATTR_DEVICE_ID = 2,
  ACL_RT_MEM_ATTR_VA_FLAG = 3,
} aclrtMallocAttrType;

typedef union {
  uint16_t moduleId;
  uint32_t deviceId;
  uint32_t vaFlag;
  uint8_t rsv[8];
} aclrtMallocAttrValue;

typedef struct {
  aclrtMallocAttrType attr;
  aclrtMallocAttrValue value;
} aclrtMallocAttribute;

// `numAttrs` attributes of an allocation; belongs to the caller.
typedef struct {
  aclrtMallocAttribute* attrs;
  size_t numAttrs;
} aclrtMallocConfig;

// A place: of which kind, and which one of them.
typedef struct {
  uint32_t id;
  aclrtMemLocationType type;
} aclrtMemLocation;

typedef struct {
  aclrtMemLocation location;
  uint32_t pageSize;
  uint32_t rsv[4];
} aclrtPtrAttributes;

// What one user of the device's memory has of it, and had at most, in bytes.
typedef struct {
  char name[32];
  uint64_t curMemSize;
  uint64_t memPeakSize;
  size_t reserved[8];
} aclrtMemUsageInfo;

// Reserves `size` bytes, and at least 32 more after them, on the current
// device; the caller frees. Needs a context. 100000: size 0 or null; 207001:
// not enough memory.
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void** devPtr, size_t size,
                                         aclrtMemMallocPolicy policy);

// The same with the size rounded up to 32 and nothing after it.
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void** devPtr, size_t size,
                                                aclrtMemMallocPolicy policy);

// The same as aclrtMalloc; attributes are accepted, `cfg` may be null.
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void** devPtr, size_t size,
                                               aclrtMemMallocPolicy policy);
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void** devPtr, size_t size,
                                                aclrtMemMallocPolicy policy,
                                                aclrtMallocConfig* cfg);
ACL_FUNC_VISIBILITY aclError aclrtMallocForTaskScheduler(
    void** devPtr, size_t size, aclrtMemMallocPolicy policy,
    aclrtMallocConfig* cfg);

// Releases what one of the above returned. 100000: null; 107000: not the start
// of such a block.
ACL_FUNC_VISIBILITY aclError aclrtFree(void* devPtr);

// The same after waiting for the device.
ACL_FUNC_VISIBILITY aclError aclrtFreeWithDevSync(void* devPtr);

// Pinned memory of the host: asynchronous copies from and to it do not wait.
// Needs no context. 100000: size 0 or null.
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void** hostPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size,
                                                    aclrtMallocConfig* cfg);
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void* hostPtr);
ACL_FUNC_VISIBILITY aclError aclrtFreeHostWithDevSync(void* hostPtr);

// Bytes free and in all on the current device. Needs a context.
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free,
                                             size_t* total);

// Where a pointer points: pinned host, device, or nothing we know.
ACL_FUNC_VISIBILITY aclError
aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes);

// Treats the caller's `size` bytes at `ptr` as pinned until unregistered; the
// memory stays the caller's. *devPtr is what the device calls it. 507910:
// registered already.
ACL_FUNC_VISIBILITY aclError aclrtHostRegister(void* ptr, uint64_t size,
                                               aclrtHostRegisterType type,
                                               void** devPtr);
ACL_FUNC_VISIBILITY aclError aclrtHostRegisterV2(void* ptr, uint64_t size,
                                                 uint32_t flag);
// `flag` is 0. 507911: not registered.
ACL_FUNC_VISIBILITY aclError aclrtHostGetDevicePointer(void* pHost,
                                                       void** pDevice,
                                                       uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtHostUnregister(void* ptr);

// Caches are coherent, so these only check. 100000: null or size 0.
ACL_FUNC_VISIBILITY aclError aclrtMemFlush(void* devPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtMemInvalidate(void* devPtr, size_t size);

// *checkResult = 1 if all `size` addresses are memory of a kind in `memType`
// (ACL_RT_MEM_TYPE_*), else 0. `reserve` is 0.
ACL_FUNC_VISIBILITY aclError aclrtCheckMemType(void** addrList, uint32_t size,
                                               uint32_t memType,
                                               uint32_t* checkResult,
                                               uint32_t reserve);

// Who uses how much of the device's memory: "app" is what the program has by
// aclrtMalloc and its relatives and as physical memory, "runtime" what we have.
// The largest first, `inputNum` entries at most; *outputNum is their number.
// Devices share one memory, so all answer the same. 107000: inputNum is 0;
// 107001: no such device.
ACL_FUNC_VISIBILITY aclError
aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo* memUsageInfo,
                     size_t inputNum, size_t* outputNum);

#ifdef __cplusplus
}
#endif
