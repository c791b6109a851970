// SPDX-License-Identifier: Apache-2.0
//
// Tensors for channels between host and device, singly and in sets. There are
// no channels: their functions answer 207000 or null. Source: CANN acl API,
// "tensor data transfer".
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

// One tensor: a shape, which is copied, and `size` bytes at `data`, which stay
// the caller's and are not looked at. Null, with a message: dims null and
// dimNum not 0 or the reverse, no enumerator, no memory.
ACL_FUNC_VISIBILITY acltdtDataItem* acltdtCreateDataItem(
    acltdtTensorType tdtType, const int64_t* dims, size_t dimNum,
    aclDataType dataType, void* data, size_t size);

// 100000, here and below: null, and what is destroyed or none of ours.
ACL_FUNC_VISIBILITY aclError acltdtDestroyDataItem(acltdtDataItem* dataItem);

// What an item was made of. For a null one: -1, -1, null, 0, 0.
ACL_FUNC_VISIBILITY acltdtTensorType
acltdtGetTensorTypeFromItem(const acltdtDataItem* dataItem);
ACL_FUNC_VISIBILITY aclDataType
acltdtGetDataTypeFromItem(const acltdtDataItem* dataItem);
ACL_FUNC_VISIBILITY void* acltdtGetDataAddrFromItem(
    const acltdtDataItem* dataItem);
ACL_FUNC_VISIBILITY size_t
acltdtGetDataSizeFromItem(const acltdtDataItem* dataItem);
ACL_FUNC_VISIBILITY size_t
acltdtGetDimNumFromItem(const acltdtDataItem* dataItem);

// The shape into the first places of dims. 100000: dims null and dimNum not 0
// or the reverse, dimNum less than the rank.
ACL_FUNC_VISIBILITY aclError acltdtGetDimsFromItem(
    const acltdtDataItem* dataItem, int64_t* dims, size_t dimNum);

// Which slice of how many: 0 and 0, as no item is cut. 100000: null.
ACL_FUNC_VISIBILITY aclError acltdtGetSliceInfoFromItem(
    const acltdtDataItem* dataItem, size_t* sliceNum, size_t* sliceId);

// Items in order. A set does not own its items: each is to be destroyed.
ACL_FUNC_VISIBILITY acltdtDataset* acltdtCreateDataset(void);
ACL_FUNC_VISIBILITY aclError acltdtDestroyDataset(acltdtDataset* dataset);
ACL_FUNC_VISIBILITY aclError acltdtAddDataItem(acltdtDataset* dataset,
                                               acltdtDataItem* dataItem);

// Null, with a message: a null set, an index beyond it.
ACL_FUNC_VISIBILITY acltdtDataItem* acltdtGetDataItem(
    const acltdtDataset* dataset, size_t index);
ACL_FUNC_VISIBILITY size_t acltdtGetDatasetSize(const acltdtDataset* dataset);

// The channel that a set came from: "" here, null for a null set.
ACL_FUNC_VISIBILITY const char* acltdtGetDatasetName(
    const acltdtDataset* dataset);

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
