// SPDX-License-Identifier: Apache-2.0
//
// Events: marks in a stream that other streams and the host wait for, and whose
// distance in time can be measured. Two families: plain events, and Ex events,
// which can be recorded again while earlier waits are still queued. Source:
// CANN acl API, "event management".
#pragma once

#include "acl/acl_base.h"

// What an event is for.
#define ACL_EVENT_SYNC 0x00000001U
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002U
#define ACL_EVENT_TIME_LINE 0x00000008U
#define ACL_EVENT_DEVICE_USE_ONLY 0x00000010U
#define ACL_EVENT_EXTERNAL 0x00000020U
#define ACL_EVENT_IPC 0x00000040U

#define ACL_EVENT_RECORD_DEFAULT 0x00000000U
#define ACL_EVENT_RECORD_EXTERNAL 0x00000001U
#define ACL_EVENT_WAIT_DEFAULT 0x00000000U
#define ACL_EVENT_WAIT_EXTERNAL 0x00000001U

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
  ACL_EVENT_RECORDED_STATUS_COMPLETE = 1,
} aclrtEventRecordedStatus;

// Numbered the other way round than aclrtEventRecordedStatus.
typedef enum {
  ACL_EVENT_STATUS_COMPLETE = 0,
  ACL_EVENT_STATUS_NOT_READY = 1,
  ACL_EVENT_STATUS_RESERVED = 2,
} aclrtEventStatus;

typedef enum {
  ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
  ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
  ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF,
} aclrtEventWaitStatus;

// A plain event that can synchronise and take times. The caller destroys it.
// Needs a context. 207007: too many events on the device.
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent* event);

// A plain event for ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS and
// ACL_EVENT_TIME_LINE combined, or for ACL_EVENT_DEVICE_USE_ONLY alone. 207000:
// ACL_EVENT_EXTERNAL alone; 107000: any other flags.
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent* event,
                                                      uint32_t flag);

// An Ex event for the first three combined. 207000: ACL_EVENT_IPC alone;
// 107000: any other flags.
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent* event,
                                                        uint32_t flag);

// Allowed while the event is still in use; returns at once.
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);

// Marks everything queued on `stream` so far; does not wait.
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event,
                                              aclrtStream stream);

// The same with ACL_EVENT_RECORD_* flags. External: on a stream that is being
// captured, else 107029; each replay of the graph records the event outside of
// it when it comes to this call, and who waits or asks before does not see that
// record.
ACL_FUNC_VISIBILITY aclError aclrtRecordEventWithFlag(aclrtEvent event,
                                                      aclrtStream stream,
                                                      uint32_t flag);

// Makes a plain event unrecorded again, in the order of the stream.
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event,
                                             aclrtStream stream);

// Whether the marked work is done. Never recorded: a plain event is not ready,
// an Ex event complete.
ACL_FUNC_VISIBILITY aclError
aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);

// The older form with the opposite numbering.
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event,
                                             aclrtEventStatus* status);

// Whether every queued wait for the event is over. 207000: an Ex event.
ACL_FUNC_VISIBILITY aclError
aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status);

// Waits for the marked work; at once if never recorded.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);

// The same for at most `timeout` milliseconds, -1 for ever. 507047: too late;
// 107000: 0 or less than -1.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event,
                                                              int32_t timeout);

// Milliseconds from `startEvent` to `endEvent`, negative if that way round.
// 507000: never recorded; 107006: not finished, or without ACL_EVENT_TIME_LINE.
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float* ms,
                                                   aclrtEvent startEvent,
                                                   aclrtEvent endEvent);

// Microseconds on a clock that never goes back. Errors as above.
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event,
                                                    uint64_t* timestamp);

ACL_FUNC_VISIBILITY aclError aclrtGetEventId(aclrtEvent event,
                                             uint32_t* eventId);

// How many events can still be created on the current device.
ACL_FUNC_VISIBILITY aclError aclrtGetEventAvailNum(uint32_t* eventCount);

#ifdef __cplusplus
}
#endif
