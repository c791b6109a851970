// SPDX-License-Identifier: Apache-2.0
//
// Host functions in a stream, on a thread of the runtime or of the caller, and
// callbacks for failed tasks. Source: CANN acl API, "callbacks" and "exception
// handling".
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether the stream waits for the end of the callback.
typedef enum {
  ACL_CALLBACK_NO_BLOCK = 0,
  ACL_CALLBACK_BLOCK = 1,
} aclrtCallbackBlockType;

typedef void (*aclrtCallback)(void* userData);
typedef void (*aclrtHostFunc)(void* args);

// What is known about a failed task; lives during the callback only.
typedef struct aclrtExceptionInfo aclrtExceptionInfo;
typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo* exceptionInfo);

// Runs `fn` on a thread of the runtime when the stream gets there; later tasks
// of the stream wait for its end. `fn` must not call the runtime. 107000: null.
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream,
                                                 aclrtHostFunc fn, void* args);

// Makes the thread `threadId` (a pthread_t) the one that runs the callbacks of
// `stream`. 107011: the stream has one already.
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId,
                                                  aclrtStream stream);

// Queues `fn` for the thread that is subscribed when the stream gets there. A
// blocking callback must not wait for its stream: that is 107000. Callbacks
// that wait for a thread that has unsubscribed or ended are dropped when the
// stream is destroyed. 107015: none is subscribed (if only by then, it is the
// stream's error); 107000: null function; 100000: unknown type.
ACL_FUNC_VISIBILITY aclError
aclrtLaunchCallback(aclrtCallback fn, void* userData,
                    aclrtCallbackBlockType blockType, aclrtStream stream);

// Runs the callbacks that are due on this thread, waiting for one at most
// `timeout` milliseconds, -1 for ever. 507012: none came; 107012: the thread is
// not subscribed, which is said when the time is over (for -1, soon), so that a
// loop may start before the subscription; 100000: 0 or less than -1.
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);

// 107011: not subscribed.
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId,
                                                    aclrtStream stream);

// The same three for host functions: another subscription, beside the one above
// and independent of it. aclrtLaunchHostFunc runs its functions on threads of
// the runtime, so nothing ever comes to aclrtProcessHostFunc.
ACL_FUNC_VISIBILITY aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId,
                                                    aclrtStream exeStream);
ACL_FUNC_VISIBILITY aclError aclrtProcessHostFunc(int32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId,
                                                      aclrtStream exeStream);

// Calls back once for every task that fails. Null ends it.
ACL_FUNC_VISIBILITY aclError
aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);

// What the callback can ask; 0xFFFFFFFF for a null pointer.
ACL_FUNC_VISIBILITY uint32_t
aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo* info);
ACL_FUNC_VISIBILITY uint32_t
aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo* info);
ACL_FUNC_VISIBILITY uint32_t
aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo* info);
ACL_FUNC_VISIBILITY uint32_t
aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo* info);
ACL_FUNC_VISIBILITY uint32_t
aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo* info);

#ifdef __cplusplus
}
#endif
