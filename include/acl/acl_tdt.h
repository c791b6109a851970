// SPDX-License-Identifier: Apache-2.0
//
// Channels that carry tensors between host and device. Not offered: functions
// that return aclError answer 207000, the others null or 0. Source: CANN acl
// API, "tensor data transfer".
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_TENSOR_DATA_UNDEFINED = -1,
  ACL_TENSOR_DATA_TENSOR = 0,
  ACL_TENSOR_DATA_END_OF_SEQUENCE = 1,
  ACL_TENSOR_DATA_ABNORMAL = 2,
  ACL_TENSOR_DATA_SLICE_TENSOR = 3,
  ACL_TENSOR_DATA_END_TENSOR = 4,
} acltdtTensorType;

typedef struct acltdtDataItem acltdtDataItem;
typedef struct acltdtDataset acltdtDataset;
typedef struct acltdtChannelHandle acltdtChannelHandle;

ACL_FUNC_VISIBILITY acltdtDataItem* acltdtCreateDataItem(
    acltdtTensorType tdtType, const int64_t* dims, size_t dimNum,
    aclDataType dataType, void* data, size_t size);
ACL_FUNC_VISIBILITY aclError acltdtDestroyDataItem(acltdtDataItem* dataItem);
ACL_FUNC_VISIBILITY acltdtDataset* acltdtCreateDataset(void);
ACL_FUNC_VISIBILITY aclError acltdtDestroyDataset(acltdtDataset* dataset);
ACL_FUNC_VISIBILITY aclError acltdtAddDataItem(acltdtDataset* dataset,
                                               acltdtDataItem* dataItem);
ACL_FUNC_VISIBILITY acltdtDataItem* acltdtGetDataItem(
    const acltdtDataset* dataset, size_t index);
ACL_FUNC_VISIBILITY size_t acltdtGetDatasetSize(const acltdtDataset* dataset);

ACL_FUNC_VISIBILITY acltdtChannelHandle* acltdtCreateChannel(uint32_t deviceId,
                                                             const char* name);
ACL_FUNC_VISIBILITY acltdtChannelHandle* acltdtCreateChannelWithCapacity(
    uint32_t deviceId, const char* name, size_t capacity);
ACL_FUNC_VISIBILITY aclError acltdtStopChannel(acltdtChannelHandle* handle);
ACL_FUNC_VISIBILITY aclError acltdtDestroyChannel(acltdtChannelHandle* handle);
ACL_FUNC_VISIBILITY aclError acltdtSendTensor(const acltdtChannelHandle* handle,
                                              const acltdtDataset* dataset,
                                              int32_t timeout);
ACL_FUNC_VISIBILITY aclError acltdtReceiveTensor(
    const acltdtChannelHandle* handle, acltdtDataset* dataset, int32_t timeout);

#ifdef __cplusplus
}
#endif
