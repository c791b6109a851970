// SPDX-License-Identifier: Apache-2.0
//
// Addresses and memory apart: reserving a range of addresses, reserving memory,
// and putting one after the other. Memory in several processes: share.h.
// Source: CANN acl API, "memory management", virtual memory.
#pragma once

#include "acl/acl_base.h"
#include "acl/rt/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_MEM_HANDLE_TYPE_NONE = 0,
  ACL_MEM_HANDLE_TYPE_POSIX = 2,
} aclrtMemHandleType;

typedef enum {
  ACL_MEM_ALLOCATION_TYPE_PINNED = 0,
} aclrtMemAllocationType;

typedef enum {
  ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
  ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
  ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 0xFFFF,
} aclrtMemGranularityOptions;

typedef enum {
  ACL_RT_MEM_ACCESS_FLAGS_NONE = 0x0,
  ACL_RT_MEM_ACCESS_FLAGS_READ = 0x1,
  ACL_RT_MEM_ACCESS_FLAGS_READWRITE = 0x3,
} aclrtMemAccessFlags;

// Which memory to reserve, where.
typedef struct {
  aclrtMemHandleType handleType;
  aclrtMemAllocationType allocationType;
  aclrtMemAttr memAttr;
  aclrtMemLocation location;
  uint64_t reserve;
} aclrtPhysicalMemProp;

typedef struct {
  aclrtMemAccessFlags flags;
  aclrtMemLocation location;
  uint8_t rsv[12];
} aclrtMemAccessDesc;

// A range of `size` bytes of addresses without memory; the caller releases it.
// `alignment` and `flags` may be 0, `expectPtr` is a wish or null. 100000: size
// 0; 207001: no such range.
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddress(void** virPtr, size_t size,
                                                    size_t alignment,
                                                    void* expectPtr,
                                                    uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtReleaseMemAddress(void* virPtr);

// `size` bytes of memory without an address; the caller frees the handle. The
// size is a multiple of the granularity.
ACL_FUNC_VISIBILITY aclError
aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                    const aclrtPhysicalMemProp* prop, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtFreePhysical(aclrtDrvMemHandle handle);

// Maps the memory at `size` addresses from `virPtr` on, and takes it away from
// there. `offset` and `flags` are 0.
ACL_FUNC_VISIBILITY aclError aclrtMapMem(void* virPtr, size_t size,
                                         size_t offset,
                                         aclrtDrvMemHandle handle,
                                         uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtUnmapMem(void* virPtr);

// The multiple that sizes of such memory must be of, in bytes.
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationGranularity(
    aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions option,
    size_t* granularity);

// Who may do what with mapped memory, `count` descriptions.
ACL_FUNC_VISIBILITY aclError aclrtMemSetAccess(void* virPtr, size_t size,
                                               aclrtMemAccessDesc* desc,
                                               size_t count);

#ifdef __cplusplus
}
#endif
