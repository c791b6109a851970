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

// What aclGetTensorDescNumDims answers where the rank is not known.
#define ACL_UNKNOWN_RANK 0xFFFFFFFFFFFFFFFE
// Numbers that stand for one range: the least and the greatest value.
#define ACL_TENSOR_SHAPE_RANGE_NUM 2
#define ACL_TENSOR_VALUE_RANGE_NUM 2

// Tensor descriptions of single-operator calls: an element type, a shape and a
// format as the program has them (the origin's), and a shape and a format as
// they lie in memory (the storage's; the same at first). A description owns all
// that it was given, and no tensor's memory. Getters show the origin. Not to be
// changed by one thread while another uses it.
//
// Unless said otherwise: 100000 for a null description, and for one that is
// destroyed or none of ours.

// `numDims` extents in elements; none describe one element, -1 is an extent
// that is not known, and -2 alone a rank that is not known. Null, with a
// message: numDims < 0, dims null where numDims > 0, no memory.
ACL_FUNC_VISIBILITY aclTensorDesc* aclCreateTensorDesc(aclDataType dataType,
                                                       int numDims,
                                                       const int64_t* dims,
                                                       aclFormat format);
ACL_FUNC_VISIBILITY void aclDestroyTensorDesc(const aclTensorDesc* desc);

// Formats of the storage (the first two) and of the origin. 0: null too.
ACL_FUNC_VISIBILITY aclError aclSetTensorFormat(aclTensorDesc* desc,
                                                aclFormat format);
ACL_FUNC_VISIBILITY aclError aclSetTensorStorageFormat(aclTensorDesc* desc,
                                                       aclFormat format);
ACL_FUNC_VISIBILITY aclError aclSetTensorOriginFormat(aclTensorDesc* desc,
                                                      aclFormat format);

// Shapes of the storage (the first two) and of the origin. 100000: null dims,
// also where numDims is 0; numDims < 0.
ACL_FUNC_VISIBILITY aclError aclSetTensorShape(aclTensorDesc* desc, int numDims,
                                               const int64_t* dims);
ACL_FUNC_VISIBILITY aclError aclSetTensorStorageShape(aclTensorDesc* desc,
                                                      int numDims,
                                                      const int64_t* dims);
ACL_FUNC_VISIBILITY aclError aclSetTensorOriginShape(aclTensorDesc* desc,
                                                     int numDims,
                                                     const int64_t* dims);

// Least and greatest extent of each dimension, in elements, and of values; they
// replace those set before. 100000: null ranges where the count is not 0.
ACL_FUNC_VISIBILITY aclError
aclSetTensorShapeRange(aclTensorDesc* desc, size_t dimsCount,
                       int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM]);
ACL_FUNC_VISIBILITY aclError
aclSetTensorValueRange(aclTensorDesc* desc, size_t valueCount,
                       int64_t valueRange[][ACL_TENSOR_VALUE_RANGE_NUM]);

// The name of the operator's argument; null is "". What the second answers
// belongs to the description, until its name changes; "" for a null one.
ACL_FUNC_VISIBILITY void aclSetTensorDescName(aclTensorDesc* desc,
                                              const char* name);
ACL_FUNC_VISIBILITY const char* aclGetTensorDescName(aclTensorDesc* desc);

// Where the tensor's memory is. 100000: no enumerator.
ACL_FUNC_VISIBILITY aclError aclSetTensorPlaceMent(aclTensorDesc* desc,
                                                   aclMemType memType);

// The tensor is the constant of these `length` bytes, which are copied. 100000:
// null, or no bytes.
ACL_FUNC_VISIBILITY aclError aclSetTensorConst(aclTensorDesc* desc,
                                               void* dataBuffer, size_t length);

// The tensor belongs to this argument, which takes any number. 100000: null.
ACL_FUNC_VISIBILITY aclError
aclSetTensorDynamicInput(aclTensorDesc* desc, const char* dynamicInputName);

// -1 for a null description.
ACL_FUNC_VISIBILITY aclDataType aclGetTensorDescType(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);

// In bytes, in elements, in dimensions. 0 for a null description, and the first
// two where an extent is negative or the product too large; ACL_UNKNOWN_RANK.
ACL_FUNC_VISIBILITY size_t aclGetTensorDescSize(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY size_t
aclGetTensorDescElementCount(const aclTensorDesc* desc);
ACL_FUNC_VISIBILITY size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);

// One extent, in elements; the first, which is older, answers -1 where there is
// none. 100000: null dimSize, an index beyond the shape.
ACL_FUNC_VISIBILITY int64_t aclGetTensorDescDim(const aclTensorDesc* desc,
                                                size_t index);
ACL_FUNC_VISIBILITY aclError aclGetTensorDescDimV2(const aclTensorDesc* desc,
                                                   size_t index,
                                                   int64_t* dimSize);

// The range of one dimension into dimRange[0] and [1]. 100000: null dimRange,
// an index beyond the ranges that were set, dimRangeNum < 2.
ACL_FUNC_VISIBILITY aclError aclGetTensorDescDimRange(const aclTensorDesc* desc,
                                                      size_t index,
                                                      size_t dimRangeNum,
                                                      int64_t* dimRange);

// A description is an array of one: itself at index 0, else null.
ACL_FUNC_VISIBILITY aclTensorDesc* aclGetTensorDescByIndex(aclTensorDesc* desc,
                                                           size_t index);

// Null: descriptions have no memory; data buffers do.
ACL_FUNC_VISIBILITY void* aclGetTensorDescAddress(const aclTensorDesc* desc);

// 100000: null; else 200001: there is one format here.
ACL_FUNC_VISIBILITY aclError aclTransTensorDescFormat(
    const aclTensorDesc* srcDesc, aclFormat dstFormat, aclTensorDesc** dstDesc);

#ifdef __cplusplus
}
#endif
