// SPDX-License-Identifier: Apache-2.0
//
// Graphs: the work of streams, captured or built by hand once, and replayed any
// number of times. Addresses are those of the calls that were kept, contents
// are read at each replay: all memory that a graph uses, workspaces included,
// stays the caller's to keep until the graph is destroyed. Unless said
// otherwise a null handle or output is 100000, a handle of something else
// 107000, and a missing context 107002.
// Source: CANN acl API, "runtime instances of models".
#pragma once

#include "acl/acl_base.h"
#include "acl/rt/callback.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* aclmdlRICondHandle;

// Whose calls that wait are forbidden while a stream is captured: those of all
// threads of the context, of the thread that captures, or nobody's.
typedef enum {
  ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
  ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
  ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2,
} aclmdlRICaptureMode;

typedef enum {
  ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
  ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
  ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2,  // End will answer 507903
} aclmdlRICaptureStatus;

// Flags of aclmdlRIDebugJsonPrint.
#define ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY 0x0UL
#define ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE 0x1UL

// Flags of aclmdlRIBindStream.
#define ACL_MODEL_STREAM_FLAG_HEAD 0x0U
#define ACL_MODEL_STREAM_FLAG_DEFAULT 0x7FFFFFFFU

// Between Begin and End, work submitted to `stream` is kept and does not run;
// what was submitted before runs, and is not part of the graph. Another stream
// joins by waiting for an event (of aclrtCreateEventExWithFlag) that was
// recorded in the capture, and `stream` must wait for it in turn before the
// end. 107027: captured already; 207000: the default stream of a context.
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureBegin(aclrtStream stream,
                                                  aclmdlRICaptureMode mode);
// Either output may be null. Any thread may ask, and needs no context. While
// nothing is captured, whatever is not null passes for a stream.
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureGetInfo(
    aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI);
// The caller destroys *modelRI. 107029: `stream` is not captured; 107036: it
// joined. From here on the capture has ended, without a graph: 107038: another
// thread began it, and its mode is not RELAXED; 507903: it was invalidated;
// 107045, 107033: a graph of a condition, or a group, is open; 107025: a stream
// that joined is not waited for.
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureEnd(aclrtStream stream,
                                                aclmdlRI* modelRI);
// The calling thread's own mode, GLOBAL at first, becomes *mode, and *mode what
// it was. RELAXED frees the thread of what captures forbid (107030, 107041).
ACL_FUNC_VISIBILITY aclError
aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode);

// Puts a replay into the order of a stream; null is the default stream of the
// current context. Replays of one graph never overlap. A task that fails ends
// its replay, and is the stream's asynchronous error. 107026: still captured;
// 507011: not built yet; 107000: `stream` is bound to a graph.
ACL_FUNC_VISIBILITY aclError aclmdlRIExecuteAsync(aclmdlRI modelRI,
                                                  aclrtStream stream);
// Replays, and waits at most `timeout` milliseconds (-1: as long as it takes),
// then 507046.
ACL_FUNC_VISIBILITY aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);
// A replay that runs stops before its next task; its stream reports 507023.
ACL_FUNC_VISIBILITY aclError aclmdlRIAbort(aclmdlRI modelRI);
// Waits up to 10 s for replays, then 107037. 107026: still captured. Streams
// that are bound to the graph are their own again.
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroy(aclmdlRI modelRI);
// Functions that Destroy calls first.
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI,
                                                             aclrtCallback func,
                                                             void* userData);
ACL_FUNC_VISIBILITY aclError
aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func);

// From 1 on, never used twice in a process.
ACL_FUNC_VISIBILITY aclError aclmdlRIGetId(aclmdlRI modelRI,
                                           uint32_t* modelRIId);
// `maxLen` counts the NUL; 107000 if the name is longer.
ACL_FUNC_VISIBILITY aclError aclmdlRISetName(aclmdlRI modelRI,
                                             const char* name);
ACL_FUNC_VISIBILITY aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen,
                                             char* name);

// Writes the tasks as JSON that trace viewers read; VERBOSE adds what operators
// compute. 107000: the file cannot be written.
ACL_FUNC_VISIBILITY aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI,
                                                    const char* path,
                                                    uint32_t flags);
// Checks the handle; this library writes no log.
ACL_FUNC_VISIBILITY aclError aclmdlRIDebugPrint(aclmdlRI modelRI);

// A group names launches of operators in a capture whose arguments an update
// can replace. The group's handle lives as long as the graph. 107029: not
// captured; 107033: a group is open, or none is; 507009: something else than an
// operator was submitted in it; 107034: to another stream of the capture.
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream,
                                                       aclrtTaskGrp* handle);
// Between Begin and End, launches on `stream` do not run: each replaces the
// next one of the group, in the order of `stream`. The same operators in the
// same order, with any arguments. 107033: an update is under way; 107040:
// another operator; 507000: more or fewer launches than the group has.
ACL_FUNC_VISIBILITY aclError
aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

typedef enum {
  // Each replay starts with the handle's value; otherwise nobody sets it.
  ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT = 1,
} aclmdlRICondHandleFlag;

typedef enum {
  ACL_MODEL_RI_COND_TYPE_IF = 0,      // 1 or 2 graphs: value != 0, and else
  ACL_MODEL_RI_COND_TYPE_WHILE = 1,   // 1 graph, again until the value is 0
  ACL_MODEL_RI_COND_TYPE_SWITCH = 2,  // that graph, if there is one
} aclmdlRICondTaskType;

typedef struct tagAclmdlRICondTaskParams {
  aclmdlRICondHandle handle;
  aclmdlRICondTaskType type;
  uint32_t size;           // of modelRIArray
  aclmdlRI* modelRIArray;  // out: graphs to capture, which belong to the parent
} aclmdlRICondTaskParams;

// A value that one task of a graph decides by: 8 bytes of device memory, which
// go with the graph. `modelRI` is being captured; `flag` is 0 or the above.
ACL_FUNC_VISIBILITY aclError aclmdlRICondHandleCreate(
    aclmdlRI modelRI, uint32_t defaultLaunchValue, aclmdlRICondHandleFlag flag,
    aclmdlRICondHandle* handle);
ACL_FUNC_VISIBILITY aclError
aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t** ptr);
// Puts the task on a captured stream; `flags` is 0. Wrong parameters are
// 107000.
ACL_FUNC_VISIBILITY aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params,
                                                 aclrtStream stream,
                                                 uint32_t flags);
// Captures `stream`, which is not part of the parent's capture, into a graph of
// aclmdlRIAddCondTask; aclmdlRICaptureEnd ends it. 107026: captured before.
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureToModelRIBegin(
    aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode);

// A graph that is built by hand: what streams of ACL_STREAM_PERSISTENT are
// given while they are bound to it is kept, with the labels and jumps of
// notify.h. In this order: Begin; BindStream; what the streams do; EndTask;
// BuildEnd; then it is executed as often as wanted; UnbindStream;
// aclmdlRIDestroy, which also unbinds. A replay starts the HEAD streams, and
// ends when no stream of the graph runs any more. An event that the graph
// records is not recorded when a replay starts, and waits of the graph are for
// that replay's record; others see the record when the replay has come to it.
// The following answer 207000 for a captured graph.

// The caller destroys *modelRI, at any time. Needs a context. 107000: `flag` is
// not 0.
ACL_FUNC_VISIBILITY aclError aclmdlRIBuildBegin(aclmdlRI* modelRI,
                                                uint32_t flag);
// HEAD: the stream starts with the replay; DEFAULT: when aclrtActiveStream,
// aclrtSwitchStream or a label says so. Once bound, it cannot be destroyed,
// stopped or aborted (107005). 107005: the default stream by null, or bound
// already; 107000: without ACL_STREAM_PERSISTENT, unknown flag, or after
// BuildEnd; 107003: of another context than the graph; 107027: captured.
ACL_FUNC_VISIBILITY aclError aclmdlRIBindStream(aclmdlRI modelRI,
                                                aclrtStream stream,
                                                uint32_t flag);
// The end, once in a graph, on its last stream: a stream that comes to it ends
// there. 107000: a second time, or after BuildEnd; 107005: not bound to this
// graph; 107027: captured.
ACL_FUNC_VISIBILITY aclError aclmdlRIEndTask(aclmdlRI modelRI,
                                             aclrtStream stream);
// From here on bound streams take nothing more (107005). 107000: a second time,
// without a HEAD stream, or with a jump to a stream that was unbound or a label
// that is not set in the graph; then it can be mended. 100000: `reserve` is not
// null. Executing answers 507011 before this, and without aclmdlRIEndTask.
ACL_FUNC_VISIBILITY aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void* reserve);
// Before BuildEnd, what the stream was given goes; after it, the graph is not
// executed any more (507011). Waits up to 10 s for replays, then 107037.
// 107005: not bound to this graph.
ACL_FUNC_VISIBILITY aclError aclmdlRIUnbindStream(aclmdlRI modelRI,
                                                  aclrtStream stream);

#ifdef __cplusplus
}
#endif
