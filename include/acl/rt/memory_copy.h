// SPDX-License-Identifier: Apache-2.0
//
// Copying and setting memory, at once or in the order of a stream. Sizes are
// bytes, `destMax` and `maxCount` the room at the destination. Source: CANN acl
// API, "memory management".
#pragma once

#include "acl/acl_base.h"
#include "acl/rt/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is where; the copy itself follows the addresses.
typedef enum {
  ACL_MEMCPY_HOST_TO_HOST = 0,
  ACL_MEMCPY_HOST_TO_DEVICE = 1,
  ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
  ACL_MEMCPY_DEFAULT = 4,
  ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
  ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
  ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7,
} aclrtMemcpyKind;

// Where both sides of a run of copies are.
typedef struct {
  aclrtMemLocation dstLoc;
  aclrtMemLocation srcLoc;
  uint8_t rsv[16];
} aclrtMemcpyBatchAttr;

// Prefetching and writing back of device caches.
typedef enum {
  ACL_RT_CMO_TYPE_PREFETCH = 0,
  ACL_RT_CMO_TYPE_WRITEBACK = 1,
  ACL_RT_CMO_TYPE_INVALID = 2,
  ACL_RT_CMO_TYPE_FLUSH = 3,
} aclrtCmoType;

typedef enum {
  ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM = 10,
  ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX = 11,
  ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN = 12,
  ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL = 13,
} aclrtReduceKind;

// Conditions of aclrtValueWait for a word w and a value v.
#define ACL_STREAM_WAIT_VALUE_GEQ 0x00000000U  // (int64_t)(w - v) >= 0
#define ACL_STREAM_WAIT_VALUE_EQ 0x00000001U   // w == v
#define ACL_STREAM_WAIT_VALUE_AND 0x00000002U  // (w & v) != 0
#define ACL_STREAM_WAIT_VALUE_NOR 0x00000003U  // ~(w | v) != 0

// Copies `count` bytes now, on this thread, without waiting for any stream.
// 0 bytes: nothing is looked at. 100000: null, or a kind other than 0 to 5;
// 107000: count > destMax, or more than the device's block holds.
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void* dst, size_t destMax,
                                         const void* src, size_t count,
                                         aclrtMemcpyKind kind);

// Copies in the order of the stream. Host memory that is not pinned must be
// ready now and is done with when this returns; pinned memory must stay valid
// until the stream gets there. 207000: host to host.
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void* dst, size_t destMax,
                                              const void* src, size_t count,
                                              aclrtMemcpyKind kind,
                                              aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithCondition(
    void* dst, size_t destMax, const void* src, size_t count,
    aclrtMemcpyKind kind, aclrtStream stream);

// Copies `height` rows of `width` bytes whose starts are `dpitch` and `spitch`
// bytes apart. 100000: null, a row wider than a pitch, or a kind other than 1
// to 4.
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void* dst, size_t dpitch,
                                           const void* src, size_t spitch,
                                           size_t width, size_t height,
                                           aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch,
                                                const void* src, size_t spitch,
                                                size_t width, size_t height,
                                                aclrtMemcpyKind kind,
                                                aclrtStream stream);

// `numBatches` copies between host and device, in no order. attrs[i] holds from
// copy attrsIndexes[i] on. *failIndex is the copy at fault, or SIZE_MAX.
ACL_FUNC_VISIBILITY aclError
aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                 size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                 size_t* attrsIndexes, size_t numAttrs, size_t* failIndex);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsync(
    void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
    size_t numBatches, aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes,
    size_t numAttrs, size_t* failIndex, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchV2(void** dsts, size_t* destMaxs,
                                                void** srcs, size_t* sizes,
                                                size_t numBatches,
                                                aclrtMemcpyBatchAttr* attrs,
                                                size_t* attrsIndexes,
                                                size_t numAttrs);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsyncV2(
    void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
    size_t numBatches, aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes,
    size_t numAttrs, aclrtStream stream);

// Sets `count` bytes to the low byte of `value`. 100000: null; 107000: count >
// maxCount.
ACL_FUNC_VISIBILITY aclError aclrtMemset(void* devPtr, size_t maxCount,
                                         int32_t value, size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void* devPtr, size_t maxCount,
                                              int32_t value, size_t count,
                                              aclrtStream stream);

// Sets `num` 32-bit words of a block with `maxCount` bytes. 100000: not aligned
// to 4, not our memory, or not enough of it.
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32(void* devPtr, size_t maxCount,
                                            uint32_t value, size_t num);
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32Async(void* devPtr, size_t maxCount,
                                                 uint32_t value, size_t num,
                                                 aclrtStream stream);

// Checks its arguments, and has no effect: a CPU's caches need no help. 100000:
// null or size 0; 107000: unknown type.
ACL_FUNC_VISIBILITY aclError aclrtCmoAsync(void* src, size_t size,
                                           aclrtCmoType cmoType,
                                           aclrtStream stream);
// dst = dst op src for `count` bytes of ACL_FLOAT, ACL_FLOAT16, ACL_BF16,
// ACL_INT8, ACL_INT16 or ACL_INT32 elements, in the order of the stream. 16-bit
// floats are rounded once, to nearest even; sums of integers wrap around; a NaN
// makes MAX and MIN a NaN. Both sides are device memory, or pinned; they are
// the same or do not overlap; `reserve` is null. 100000: null, another type, or
// `reserve`; 107000: count is 0, no multiple of an element, or more than the
// memory has; unknown kind; 207000: EQUAL.
ACL_FUNC_VISIBILITY aclError aclrtReduceAsync(
    void* dst, const void* src, uint64_t count, aclrtReduceKind kind,
    aclDataType type, aclrtStream stream, void* reserve);
// Writes one 64-bit word of device memory after all that the stream was given
// before: who sees the word sees that, too. `devAddr` is a multiple of 8;
// `flag` is 0. Needs a context. 107000: other addresses or flags.
ACL_FUNC_VISIBILITY aclError aclrtValueWrite(void* devAddr, uint64_t value,
                                             uint32_t flag, aclrtStream stream);
// Holds the stream until the word *devAddr meets the condition `flag`
// (ACL_STREAM_WAIT_VALUE_*), whoever writes it; leaves it as it is. A word that
// aclrtValueWrite writes is seen at once, others within a millisecond. Ends
// when the stream is aborted or destroyed by force. Errors as in
// aclrtValueWrite; if the memory is freed meanwhile, the stream's is 107000.
ACL_FUNC_VISIBILITY aclError aclrtValueWait(void* devAddr, uint64_t value,
                                            uint32_t flag, aclrtStream stream);

#ifdef __cplusplus
}
#endif
