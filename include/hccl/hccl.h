// SPDX-License-Identifier: Apache-2.0
//
// Collectives between processes. Programs that use them link, and are told when
// they make a group: each function up to HcclSetConfig answers
// HCCL_E_NOT_SUPPORT, with a message for aclGetRecentErrMsg. Source: CANN HCCL
// API, "C interfaces".
#pragma once

#include <string.h>

#include "acl/acl_base.h"
#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfo(const char* clusterInfo,
                                                       uint32_t rank,
                                                       HcclComm* comm);
ACL_FUNC_VISIBILITY HcclResult
HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo,
                     uint32_t rank, HcclComm* comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfoConfig(
    uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
    const HcclCommConfig* config, HcclComm* comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices,
                                               HcclComm* comms);
ACL_FUNC_VISIBILITY HcclResult HcclCommDestroy(HcclComm comm);
ACL_FUNC_VISIBILITY HcclResult HcclGetRankSize(HcclComm comm,
                                               uint32_t* rankSize);
ACL_FUNC_VISIBILITY HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank);
ACL_FUNC_VISIBILITY HcclResult HcclGetCommName(HcclComm comm, char* commName);
ACL_FUNC_VISIBILITY HcclResult HcclGetCommAsyncError(HcclComm comm,
                                                     HcclResult* asyncError);
ACL_FUNC_VISIBILITY HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAllReduce(void* sendBuf, void* recvBuf,
                                             uint64_t count,
                                             HcclDataType dataType,
                                             HcclReduceOp op, HcclComm comm,
                                             aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclBroadcast(void* buf, uint64_t count,
                                             HcclDataType dataType,
                                             uint32_t root, HcclComm comm,
                                             aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf,
                                                 uint64_t recvCount,
                                                 HcclDataType dataType,
                                                 HcclReduceOp op, HcclComm comm,
                                                 aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclScatter(void* sendBuf, void* recvBuf,
                                           uint64_t recvCount,
                                           HcclDataType dataType, uint32_t root,
                                           HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAllGather(void* sendBuf, void* recvBuf,
                                             uint64_t sendCount,
                                             HcclDataType dataType,
                                             HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclReduce(void* sendBuf, void* recvBuf,
                                          uint64_t count, HcclDataType dataType,
                                          HcclReduceOp op, uint32_t root,
                                          HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult
HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType,
             const void* recvBuf, uint64_t recvCount, HcclDataType recvType,
             HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult
HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
              HcclDataType sendType, const void* recvBuf,
              const void* recvCounts, const void* rdispls,
              HcclDataType recvType, HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclSend(void* sendBuf, uint64_t count,
                                        HcclDataType dataType,
                                        uint32_t destRank, HcclComm comm,
                                        aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclRecv(void* recvBuf, uint64_t count,
                                        HcclDataType dataType, uint32_t srcRank,
                                        HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo,
                                                 uint32_t itemNum,
                                                 HcclComm comm,
                                                 aclrtStream stream);

// Settings of the process, which are kept: sums have one order in any case.
// HCCL_E_PARA: no enumerator, no value from 0 to 3; HCCL_E_PTR: null.
ACL_FUNC_VISIBILITY HcclResult HcclSetConfig(HcclConfig config,
                                             HcclConfigValue configValue);
ACL_FUNC_VISIBILITY HcclResult HcclGetConfig(HcclConfig config,
                                             HcclConfigValue* configValue);

// What a status means, in words that live for ever; never null.
ACL_FUNC_VISIBILITY const char* HcclGetErrorString(HcclResult code);

// The usual settings of a group.
static inline void HcclCommConfigInit(HcclCommConfig* config) {
  memset(config, 0, sizeof(*config));
  config->hcclBufferSize = 200;
}

#ifdef __cplusplus
}
#endif
