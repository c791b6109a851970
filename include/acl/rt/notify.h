// SPDX-License-Identifier: Apache-2.0
//
// Notifies: flags and counts that streams change and wait for; those of several
// processes: share.h. Labels and jumps in graphs that are built by hand. Groups
// of cores are not offered: their functions answer 207000 (creating a group
// information: null). Source: CANN acl API, "notify management", "stream
// branches" and "computing groups".
#pragma once

#include "acl/acl_base.h"

// Where a notify may be waited for; no difference here.
#define ACL_NOTIFY_DEFAULT 0x00000000U
#define ACL_NOTIFY_DEVICE_USE_ONLY 0x00000001U

#ifdef __cplusplus
extern "C" {
#endif

// What recording does to the count.
typedef enum {
  ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE = 0,
  ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE = 1,
  ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE = 2,
  ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE = 4,
} aclrtCntNotifyRecordMode;

typedef struct {
  aclrtCntNotifyRecordMode mode;
  uint32_t value;
} aclrtCntNotifyRecordInfo;

// What a wait waits for: the count is less than `value`, ..., or has all of its
// bits.
typedef enum {
  ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE = 0,
  ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE = 1,
  ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE = 2,
  ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE = 3,
  ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE = 4,
} aclrtCntNotifyWaitMode;

// `timeout` in seconds, 0 for ever. `isClear` 1: the wait sets the count to 0,
// at once with seeing it.
typedef struct {
  aclrtCntNotifyWaitMode mode;
  uint32_t value;
  uint32_t timeout;
  uint8_t isClear;
  uint8_t rsv[3];
} aclrtCntNotifyWaitInfo;

typedef enum {
  ACL_GROUP_AICORE_INT = 0,
  ACL_GROUP_AIV_INT = 1,
  ACL_GROUP_AIC_INT = 2,
  ACL_GROUP_SDMANUM_INT = 3,
  ACL_GROUP_ASQNUM_INT = 4,
  ACL_GROUP_GROUPID_INT = 5,
} aclrtGroupAttr;

typedef struct aclrtGroupInfo aclrtGroupInfo;

// A flag that one stream raises and another waits for and lowers. The caller
// destroys it, which leaves what streams have queued as it is. Needs a context.
// 107000: unknown flags; 207009: the device has 8192 already.
ACL_FUNC_VISIBILITY aclError aclrtCreateNotify(aclrtNotify* notify,
                                               uint64_t flag);
ACL_FUNC_VISIBILITY aclError aclrtDestroyNotify(aclrtNotify notify);

// Raises the flag when the stream gets there; raising it twice is once. 107003:
// a stream of another context than the thread's.
ACL_FUNC_VISIBILITY aclError aclrtRecordNotify(aclrtNotify notify,
                                               aclrtStream stream);

// Holds the stream until the flag is up, and lowers it: two waits need two
// records. At most for `timeout` seconds, 0 for ever; then the flag stays and
// the stream's error is 107019. Ends when the stream is aborted or destroyed by
// force. 107003: as above.
ACL_FUNC_VISIBILITY aclError aclrtWaitAndResetNotify(aclrtNotify notify,
                                                     aclrtStream stream,
                                                     uint32_t timeout);

// A number that no other notify of the process has.
ACL_FUNC_VISIBILITY aclError aclrtGetNotifyId(aclrtNotify notify,
                                              uint32_t* notifyId);

// Lowers `num` flags at once, without a stream. 107000: none, or one that is
// null or destroyed; then none is lowered.
ACL_FUNC_VISIBILITY aclError aclrtNotifyBatchReset(aclrtNotify* notifies,
                                                   size_t num);

// A notify that counts, from 0, in 32 bits. For these functions a null handle
// is 107000; creating is as above.
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyCreate(aclrtCntNotify* cntNotify,
                                                  uint64_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify);

// Changes the count when the stream gets there. 107000: unknown mode; 107003: a
// stream of another context.
ACL_FUNC_VISIBILITY aclError
aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                     aclrtCntNotifyRecordInfo* info);

// Holds the stream until the count is as `info` says. Timeouts and errors as in
// aclrtWaitAndResetNotify; 107000: unknown mode.
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyWaitWithTimeout(
    aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyWaitInfo* info);

// Sets the count to 0 when the stream gets there.
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify,
                                                 aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify,
                                                 uint32_t* notifyId);

// How aclrtSwitchStream compares its left value with its right one.
typedef enum {
  ACL_RT_EQUAL = 0,
  ACL_RT_NOT_EQUAL = 1,
  ACL_RT_GREATER = 2,
  ACL_RT_GREATER_OR_EQUAL = 3,
  ACL_RT_LESS = 4,
  ACL_RT_LESS_OR_EQUAL = 5,
} aclrtCondition;

typedef enum {
  ACL_RT_SWITCH_INT32 = 0,
  ACL_RT_SWITCH_INT64 = 1,
} aclrtCompareDataType;

// A label is a place in a stream of a graph that is built by hand (graph.h).
// The caller destroys it, or its context does; graphs keep what they know of
// it. Needs a context. 207005: the process has 65535.
ACL_FUNC_VISIBILITY aclError aclrtCreateLabel(aclrtLabel* label);
// 507031: created in another context than the current one.
ACL_FUNC_VISIBILITY aclError aclrtDestroyLabel(aclrtLabel label);
// Marks the place after all that `stream` was given so far. 107005: not bound
// to a graph, or the graph is complete; 107027: captured; 107000: the label is
// set already, in a graph that lives; 507031: of another context than the
// stream.
ACL_FUNC_VISIBILITY aclError aclrtSetLabel(aclrtLabel label,
                                           aclrtStream stream);
// `num` labels, set or not yet, to choose from. The caller destroys the list;
// labels may be destroyed before it. 107000: `num` outside of 1 to 65535.
ACL_FUNC_VISIBILITY aclError aclrtCreateLabelList(aclrtLabel* labels,
                                                  size_t num,
                                                  aclrtLabelList* labelList);
ACL_FUNC_VISIBILITY aclError aclrtDestroyLabelList(aclrtLabelList labelList);

// The jumps of a graph that is built by hand. Numbers are read when the replay
// comes to the jump, from device memory at a multiple of their size (107000
// elsewhere), which stays the caller's. A stream that is to start while it runs
// does so when it has ended, as often as it was told to. Streams: 107005 if not
// bound, or bound to different graphs; 107027 if captured.

// The stream goes on at the label of the list whose number is the uint32_t at
// `ptr`, or at number maxValue - 1 if that is less; not with what comes next.
// If the label is in another stream, that one starts there, and this one ends.
// By BuildEnd the labels are to be set in the graph. 107000: `maxValue` is 0,
// or more than the list has.
ACL_FUNC_VISIBILITY aclError aclrtSwitchLabelByIndex(void* ptr,
                                                     uint32_t maxValue,
                                                     aclrtLabelList labelList,
                                                     aclrtStream stream);
// Where the comparison of two numbers holds, `trueStream` starts, and `stream`
// ends; where not, `stream` goes on. 100000: `falseStream` is not null; 107000:
// unknown condition or type.
ACL_FUNC_VISIBILITY aclError
aclrtSwitchStream(void* leftValue, aclrtCondition condition, void* rightValue,
                  aclrtCompareDataType dataType, aclrtStream trueStream,
                  aclrtStream falseStream, aclrtStream stream);
// `activeStream` starts, from its beginning, and `stream` goes on beside it.
ACL_FUNC_VISIBILITY aclError aclrtActiveStream(aclrtStream activeStream,
                                               aclrtStream stream);

// Shares of a device's cores.
ACL_FUNC_VISIBILITY aclError aclrtSetGroup(int32_t groupId);
ACL_FUNC_VISIBILITY aclError aclrtGetGroupCount(uint32_t* count);
ACL_FUNC_VISIBILITY aclrtGroupInfo* aclrtCreateGroupInfo(void);
ACL_FUNC_VISIBILITY aclError aclrtDestroyGroupInfo(aclrtGroupInfo* groupInfo);
ACL_FUNC_VISIBILITY aclError aclrtGetAllGroupInfo(aclrtGroupInfo* groupInfo);
ACL_FUNC_VISIBILITY aclError aclrtGetGroupInfoDetail(
    const aclrtGroupInfo* groupInfo, int32_t groupIndex, aclrtGroupAttr attr,
    void* attrValue, size_t valueLen, size_t* paramRetSize);

#ifdef __cplusplus
}
#endif
