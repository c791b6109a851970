// SPDX-License-Identifier: Apache-2.0
//
// Streams: queues whose tasks run one after the other, in the order submitted,
// and independently of every other stream. A failure of a task is reported by
// the next call that synchronises with its stream. Source: CANN acl API,
// "stream management".
#pragma once

#include "acl/acl_base.h"
#include "acl/rt/device.h"

// Flags of aclrtCreateStreamWithConfig. FAST_LAUNCH, FAST_SYNC and HUGE change
// nothing. PERSISTENT is for graphs that are built by hand (graph.h): the
// stream takes tasks only while it is bound to one, else 107005. The others are
// not offered (207000).
#define ACL_STREAM_FAST_LAUNCH 0x00000001U
#define ACL_STREAM_FAST_SYNC 0x00000002U
#define ACL_STREAM_PERSISTENT 0x00000004U
#define ACL_STREAM_HUGE 0x00000008U
#define ACL_STREAM_CPU_SCHEDULE 0x00000010U
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020U

// Modes of aclrtSetStreamFailureMode.
#define ACL_CONTINUE_ON_FAILURE 0x00000000U
#define ACL_STOP_ON_FAILURE 0x00000001U

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_STREAM_STATUS_COMPLETE = 0,
  ACL_STREAM_STATUS_NOT_READY = 1,
  ACL_STREAM_STATUS_RESERVED = 0xFFFF,
} aclrtStreamStatus;

typedef enum {
  ACL_STREAM_ATTR_FAILURE_MODE = 1,
  ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
  ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
  ACL_STREAM_ATTR_CACHE_OP_INFO = 4,
  ACL_STREAM_ATTR_PRIORITY = 5,
} aclrtStreamAttr;

// The member that belongs to the aclrtStreamAttr given with it.
typedef union {
  uint64_t failureMode;
  uint32_t overflowSwitch;
  uint32_t userCustomTag;
  uint32_t cacheOpInfoSwitch;
  uint32_t streamPriority;
  uint32_t reserve[4];
} aclrtStreamAttrValue;

// A stream of the current context, which the caller destroys. Needs a context.
// 207008: too many streams on the device.
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream* stream);

// The same with a priority (0 highest, 7 lowest) and ACL_STREAM_* flags.
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream* stream,
                                                         uint32_t priority,
                                                         uint32_t flag);

// Waits for everything queued, then destroys. 107005: bound to a graph.
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);

// Discards what is queued and destroys; waits for the running task at most.
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);

// Waits for everything queued so far. Null: the default stream. Returns the
// first failure among the stream's tasks since the last such report.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);

// The same for at most `timeout` milliseconds, -1 for ever. 507046: too late;
// 107000: 0 or less than -1.
ACL_FUNC_VISIBILITY aclError
aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

// Whether everything queued is done, without waiting.
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream,
                                              aclrtStreamStatus* status);

// Lets later tasks of `stream` wait for what `event` recorded; the caller does
// not wait. 107000: a plain event that nobody has recorded.
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream,
                                                  aclrtEvent event);

// The same for at most `timeout` seconds, 0 for ever.
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream,
                                                             aclrtEvent event,
                                                             int32_t timeout);

// The same with ACL_EVENT_WAIT_* flags.
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithFlag(aclrtStream stream,
                                                          aclrtEvent event,
                                                          uint32_t timeout,
                                                          uint32_t flag);

// Discards what is queued. Threads that wait for the stream get 107023. 107005:
// bound to a graph; abort the stream that executes it, or aclmdlRIAbort.
ACL_FUNC_VISIBILITY aclError aclrtStreamAbort(aclrtStream stream);

// Makes the task that runs give up its waits, and keeps what is queued; a
// kernel runs to its end. 100000: a default stream; 107005: bound to a graph.
ACL_FUNC_VISIBILITY aclError aclrtStreamStop(aclrtStream stream);

// What the stream was created with. Null: the default stream.
ACL_FUNC_VISIBILITY aclError aclrtStreamGetId(aclrtStream stream,
                                              int32_t* streamId);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetPriority(aclrtStream stream,
                                                    uint32_t* priority);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetFlags(aclrtStream stream,
                                                 uint32_t* flags);

// How many streams can still be created on the current device.
ACL_FUNC_VISIBILITY aclError aclrtGetStreamAvailableNum(uint32_t* streamCount);

// Whether tasks after a failed one still run: ACL_CONTINUE_ON_FAILURE, the
// default, or ACL_STOP_ON_FAILURE. 107000: neither.
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream,
                                                       uint64_t mode);

// One attribute of the stream. 107000: unknown attribute.
ACL_FUNC_VISIBILITY aclError
aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                        aclrtStreamAttrValue* value);
ACL_FUNC_VISIBILITY aclError
aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                        aclrtStreamAttrValue* value);

// Whether the stream reports overflow: 1 or 0. Stored, without effect.
ACL_FUNC_VISIBILITY aclError aclrtSetStreamOverflowSwitch(aclrtStream stream,
                                                          uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamOverflowSwitch(aclrtStream stream,
                                                          uint32_t* flag);

// How long waits on a stream and operators may take; seconds, milliseconds or
// microseconds as said, 0 for the maximum. Stored and answered.
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError
aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout);
// The steps in which such a timeout can be set, in microseconds.
ACL_FUNC_VISIBILITY aclError aclrtGetOpTimeOutInterval(uint64_t* interval);
// The timeout of operators in milliseconds.
ACL_FUNC_VISIBILITY aclError aclrtGetOpExecuteTimeout(uint32_t* timeoutMs);

// How many cores work on the stream may use; in front of the device's limit.
// 107000: unknown type.
ACL_FUNC_VISIBILITY aclError aclrtSetStreamResLimit(aclrtStream stream,
                                                    aclrtDevResLimitType type,
                                                    uint32_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamResLimit(aclrtStream stream,
                                                    aclrtDevResLimitType type,
                                                    uint32_t* value);
ACL_FUNC_VISIBILITY aclError aclrtResetStreamResLimit(aclrtStream stream);

// Lets what this thread plans use the limits of `stream`, and ends that.
ACL_FUNC_VISIBILITY aclError
aclrtUseStreamResInCurrentThread(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError
aclrtUnuseStreamResInCurrentThread(aclrtStream stream);

#ifdef __cplusplus
}
#endif
