// SPDX-License-Identifier: Apache-2.0
//
// Notifies: flags and counts that streams change and wait for; those of several
// processes: share.h. Labels and groups of cores are not offered: their
// functions answer 207000 (creating a group information: null). Source: CANN
// acl API, "notify management", "stream branches" and "computing groups".
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

// Places in a stream that it can jump to.
ACL_FUNC_VISIBILITY aclError aclrtCreateLabel(aclrtLabel* label);
ACL_FUNC_VISIBILITY aclError aclrtSetLabel(aclrtLabel label,
                                           aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtDestroyLabel(aclrtLabel label);
ACL_FUNC_VISIBILITY aclError aclrtCreateLabelList(aclrtLabel* labels,
                                                  size_t num,
                                                  aclrtLabelList* labelList);
ACL_FUNC_VISIBILITY aclError aclrtDestroyLabelList(aclrtLabelList labelList);
ACL_FUNC_VISIBILITY aclError aclrtSwitchLabelByIndex(void* ptr,
                                                     uint32_t maxValue,
                                                     aclrtLabelList labelList,
                                                     aclrtStream stream);
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
