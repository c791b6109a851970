// SPDX-License-Identifier: Apache-2.0
//
// Memory, events and notifies that processes of one machine and user share. One
// process exports: a key, a handle or a number, which it sends to others by any
// means; others import. White lists of processes say who may import through
// this library; the system's own border is the user. An importer can be cut off
// by nobody, and what it holds stays as long as it holds it. Source: CANN acl
// API, "memory management", "event management" and "notify management", sharing
// between processes.
#pragma once

#include "acl/acl_base.h"
#include "acl/rt/memory_map.h"

// Who may import: the processes that the exporter lists, or all.
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL
#define ACL_RT_VMM_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL
#define ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x2UL

// Of no effect: devices are one machine's.
#define ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS 0x1UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS 0x2UL

#define ACL_IPC_EVENT_HANDLE_SIZE 64U

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT = 0x1,
  ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 0x2,
} aclrtMemSharedHandleType;

// Of other machines' memory, which is not offered.
typedef struct {
  uint8_t data[128];
} aclrtMemFabricHandle;

// Names an event in any process; copied as bytes.
typedef struct aclrtIpcEventHandle {
  char reserved[ACL_IPC_EVENT_HANDLE_SIZE];
} aclrtIpcEventHandle;

// Writes a key of the block that starts at `devPtr`, of aclrtMalloc and its
// relatives: text of `len` bytes, at least 65, that the caller owns; the same
// key each time until it is closed. `size` is at most that of the block, all of
// which is exported. The block stays at its addresses; the first export waits
// for the queued work that uses it - for all queued work, if a graph keeps it -
// and copies it, so that nothing else may write to it meanwhile. 107000: wrong
// size, length, flags or block; 207000: a block of less than 64 KiB, or no
// shared memory here; 207005: out of it, or of files.
ACL_FUNC_VISIBILITY aclError aclrtIpcMemGetExportKey(void* devPtr, size_t size,
                                                     char* key, size_t len,
                                                     uint64_t flags);

// Lets `num` more processes, 64 in all, import a key of this process. Not
// needed with ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION. 107000:
// another process's key, or no process; 207005: the list is full.
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetImportPid(const char* key,
                                                     int32_t* pid, size_t num);

// Where the block of a key is in this process: the start, for every call that
// takes device memory but aclrtFree. Again in the same process: the same
// address, to be closed as often; in the exporter its own. 507899: no such key,
// its exporter has ended, or it does not list this process.
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportByKey(void** devPtr,
                                                    const char* key,
                                                    uint64_t flags);

// Importer: the memory goes from its addresses, when no work uses it. Exporter:
// nobody imports the key any more; the block stays until aclrtFree, and
// importers keep what they have. 107000: unknown here.
ACL_FUNC_VISIBILITY aclError aclrtIpcMemClose(const char* key);

// A number that names physical memory in every process of the machine, the same
// each time; it ends when the memory does here. `handleType` is
// ACL_MEM_HANDLE_TYPE_NONE, else 100000. 107000: unknown flags or handle;
// 207000, 207005: as above.
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandle(
    aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
    uint64_t* shareableHandle);

// As aclrtIpcMemSetImportPid; no processes are 100000.
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandle(
    uint64_t shareableHandle, int32_t* pid, size_t pidNum);

// The same memory as a handle of this process, which frees it; the memory goes
// with its last handle and mapping. 107001: no such device; 507899: as above.
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandle(
    uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle* handle);

// Fills the caller's handle of an event of aclrtCreateEventExWithFlag with
// ACL_EVENT_IPC; any process may open it until the event is destroyed where it
// was created, or that process calls aclFinalize. 107000: another event, or one
// from before aclFinalize.
ACL_FUNC_VISIBILITY aclError
aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle);

// The same event as one of this process, which destroys it. It can be recorded,
// waited for, synchronised and queried; each refers to the last record at that
// moment, in whichever process. Where that process ended before its record was
// done, all of these fail with 507022 within a second. To record never waits: a
// stream may have any number of records under way, and up to 64 streams of all
// processes may have some of one event; a record on another stream is 207005.
// 507022: the event is destroyed, or the process that created it has ended;
// 107000: no handle.
ACL_FUNC_VISIBILITY aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle,
                                                     aclrtEvent* event);

// Writes a key of a notify of aclrtCreateNotify, as aclrtIpcMemGetExportKey
// does; nothing that is queued changes. The key ends with the notify here, or
// with aclFinalize, and so does the sharing of it: 107000 from then on. `flags`
// is 0 or ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION, else 107000.
ACL_FUNC_VISIBILITY aclError aclrtNotifyGetExportKey(aclrtNotify notify,
                                                     char* key, size_t len,
                                                     uint64_t flags);

// As aclrtIpcMemSetImportPid, once the notify is exported.
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPid(aclrtNotify notify,
                                                     int32_t* pid, size_t num);

// The same flag as a notify of this process, which destroys it; the flag goes
// with the last one. A wait whose other processes have all died fails with
// 507022 within a second, unless its own process has ever recorded the notify,
// and so may do it again. Needs a context. 507899: as above; 207009: no
// notifies left; 107000: `flags` above 3.
ACL_FUNC_VISIBILITY aclError aclrtNotifyImportByKey(aclrtNotify* notify,
                                                    const char* key,
                                                    uint64_t flags);

#ifdef __cplusplus
}
#endif
