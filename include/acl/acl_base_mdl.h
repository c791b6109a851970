// SPDX-License-Identifier: Apache-2.0
//
// Data buffers and tensor descriptions: what single-operator and model calls
// pass around. Source: CANN acl API, "aclDataBuffer" and "aclTensorDesc".
#pragma once

#include "acl/acl_base_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclDataBuffer aclDataBuffer;
typedef struct aclTensorDesc aclTensorDesc;

// An address and a size in bytes under one handle. Neither owns nor reads the
// memory; both may be null and 0. Null when out of memory.
ACL_FUNC_VISIBILITY aclDataBuffer* aclCreateDataBuffer(void* data, size_t size);

// Destroys the handle, not the memory it names. 100000: null.
ACL_FUNC_VISIBILITY aclError
aclDestroyDataBuffer(const aclDataBuffer* dataBuffer);

// Names other memory by the same handle. 100000: null handle.
ACL_FUNC_VISIBILITY aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer,
                                                 void* data, size_t size);

// The address given when creating or updating; null for a null handle.
ACL_FUNC_VISIBILITY void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer);

// The size in bytes; 0 for a null handle. The first form is older and answers
// the low 32 bits.
ACL_FUNC_VISIBILITY uint32_t
aclGetDataBufferSize(const aclDataBuffer* dataBuffer);
ACL_FUNC_VISIBILITY size_t
aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer);

// Tensor descriptions of single-operator and model calls. Not offered: creating
// one answers null, and the others 207000, 0 or null.
ACL_FUNC_VISIBILITY aclTensorDesc* aclCreateTensorDesc(aclDataType dataType,
                                                       int numDims,
                                                       const int64_t* dims,
                                                       aclFormat format);
ACL_FUNC_VISIBILITY void aclDestroyTensorDesc(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY aclDataType aclGetTensorDescType(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY size_t aclGetTensorDescSize(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY size_t
aclGetTensorDescElementCount(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY aclError aclGetTensorDescDimV2(const aclTensorDesc* desc,
                                                   size_t index,
                                                   int64_t* dimSize);

#ifdef __cplusplus
}
#endif
