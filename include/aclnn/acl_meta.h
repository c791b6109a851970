// SPDX-License-Identifier: Apache-2.0
//
// What operators take besides numbers: tensors, scalars, arrays and lists, and
// the executor that stands between an operator's two phases. Source: CANN aclnn
// API, "common functions".
//
// Every function answers aclnnStatus: 0, 161001 for a null pointer, 161002 for
// an unusable value; aclGetRecentErrMsg has the words. Creating answers null on
// failure. Objects never own or touch device memory.
#pragma once

#ifdef __cplusplus
#include <cstdint>
#include <cstdlib>
#else
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#endif

#include "acl/acl_base.h"

// Exported by every library that defines these, whatever its default.
#define ACL_META_EXPORT __attribute__((visibility("default")))

// Adapters that load the library at run time repeat this block word for word.
#ifndef ACLNN_META
#define ACLNN_META
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;

typedef int32_t aclnnStatus;
#ifdef __cplusplus
constexpr aclnnStatus OK = 0;
#else
enum { OK = 0 };
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

// A view of device memory: element (i, j, ...) is at tensorData + (offset +
// i * stride[0] + j * stride[1] + ...) elements. Everything is copied; a null
// stride means contiguous, rank 0 and dimensions of 0 are fine, tensorData may
// be null. The caller destroys the tensor.
ACL_META_EXPORT aclTensor* aclCreateTensor(
    const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
    const int64_t* stride, int64_t offset, aclFormat format,
    const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData);

// One number; `value` points to it and is copied.
ACL_META_EXPORT aclScalar* aclCreateScalar(void* value, aclDataType dataType);

// Copies of the caller's numbers; size 0 is an empty array.
ACL_META_EXPORT aclIntArray* aclCreateIntArray(const int64_t* value,
                                               uint64_t size);
ACL_META_EXPORT aclFloatArray* aclCreateFloatArray(const float* value,
                                                   uint64_t size);
ACL_META_EXPORT aclBoolArray* aclCreateBoolArray(const bool* value,
                                                 uint64_t size);

// Lists own their members from now on: destroying the list destroys them.
// Members may be null, the list empty.
ACL_META_EXPORT aclTensorList* aclCreateTensorList(
    const aclTensor* const* value, uint64_t size);
ACL_META_EXPORT aclScalarList* aclCreateScalarList(
    const aclScalar* const* value, uint64_t size);

// Null is fine. Allowed as soon as an operator's first phase has returned.
ACL_META_EXPORT aclnnStatus aclDestroyTensor(const aclTensor* tensor);
ACL_META_EXPORT aclnnStatus aclDestroyScalar(const aclScalar* scalar);
ACL_META_EXPORT aclnnStatus aclDestroyIntArray(const aclIntArray* array);
ACL_META_EXPORT aclnnStatus aclDestroyFloatArray(const aclFloatArray* array);
ACL_META_EXPORT aclnnStatus aclDestroyBoolArray(const aclBoolArray* array);
ACL_META_EXPORT aclnnStatus aclDestroyTensorList(const aclTensorList* array);
ACL_META_EXPORT aclnnStatus aclDestroyScalarList(const aclScalarList* array);

// Copies of a tensor's numbers in an array from `new int64_t[]`, which the
// caller releases with delete[]; never null, also when there are none.
ACL_META_EXPORT aclnnStatus aclGetViewShape(const aclTensor* tensor,
                                            int64_t** viewDims,
                                            uint64_t* viewDimsNum);
ACL_META_EXPORT aclnnStatus aclGetViewStrides(const aclTensor* tensor,
                                              int64_t** stridesValue,
                                              uint64_t* stridesNum);
ACL_META_EXPORT aclnnStatus aclGetStorageShape(const aclTensor* tensor,
                                               int64_t** storageDims,
                                               uint64_t* storageDimsNum);

// In elements.
ACL_META_EXPORT aclnnStatus aclGetViewOffset(const aclTensor* tensor,
                                             int64_t* offset);
ACL_META_EXPORT aclnnStatus aclGetFormat(const aclTensor* tensor,
                                         aclFormat* format);
ACL_META_EXPORT aclnnStatus aclGetDataType(const aclTensor* tensor,
                                           aclDataType* dataType);

ACL_META_EXPORT aclnnStatus aclGetIntArraySize(const aclIntArray* array,
                                               uint64_t* size);
ACL_META_EXPORT aclnnStatus aclGetFloatArraySize(const aclFloatArray* array,
                                                 uint64_t* size);
ACL_META_EXPORT aclnnStatus aclGetBoolArraySize(const aclBoolArray* array,
                                                uint64_t* size);
ACL_META_EXPORT aclnnStatus
aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size);
ACL_META_EXPORT aclnnStatus
aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size);

// Describes the tensor anew; arguments as in aclCreateTensor.
ACL_META_EXPORT aclnnStatus
aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
              aclDataType dataType, const int64_t* stride, int64_t offset,
              aclFormat format, const int64_t* storageDims,
              uint64_t storageDimsNum, void* tensorData);

// The tensor's device address. Not between an operator's two phases: the
// executor has the address of phase one.
ACL_META_EXPORT aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr);
ACL_META_EXPORT aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor,
                                                void** addr);

// An executor belongs to the second phase, which consumes it, unless it is made
// repeatable first; then the caller destroys it. 561103: null; 561000: not a
// live executor.
ACL_META_EXPORT aclnnStatus
aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);
ACL_META_EXPORT aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);

// Lets later runs of a repeatable executor use `addr` for a tensor of the first
// phase. `index` counts the operator's tensor inputs, its outputs, or inputs
// then outputs. 561103: null executor or tensor; 161002: no such tensor.
ACL_META_EXPORT aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor,
                                                  const size_t index,
                                                  aclTensor* tensor,
                                                  void* addr);
ACL_META_EXPORT aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor,
                                                   const size_t index,
                                                   aclTensor* tensor,
                                                   void* addr);
ACL_META_EXPORT aclnnStatus aclSetTensorAddr(aclOpExecutor* executor,
                                             const size_t index,
                                             aclTensor* tensor, void* addr);

// The same for member `relativeIndex` of the list that is the operator's
// parameter `irIndex`.
ACL_META_EXPORT aclnnStatus aclSetDynamicInputTensorAddr(
    aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
    aclTensorList* tensors, void* addr);
ACL_META_EXPORT aclnnStatus aclSetDynamicOutputTensorAddr(
    aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
    aclTensorList* tensors, void* addr);
ACL_META_EXPORT aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor,
                                                    size_t irIndex,
                                                    const size_t relativeIndex,
                                                    aclTensorList* tensors,
                                                    void* addr);

// The same six under their other spelling.
ACL_META_EXPORT aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor,
                                                  const size_t index,
                                                  aclTensor* tensor,
                                                  void* addr);
ACL_META_EXPORT aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor,
                                                   const size_t index,
                                                   aclTensor* tensor,
                                                   void* addr);
ACL_META_EXPORT aclnnStatus AclSetTensorAddr(aclOpExecutor* executor,
                                             const size_t index,
                                             aclTensor* tensor, void* addr);
ACL_META_EXPORT aclnnStatus AclSetDynamicInputTensorAddr(
    aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
    aclTensorList* tensors, void* addr);
ACL_META_EXPORT aclnnStatus AclSetDynamicOutputTensorAddr(
    aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
    aclTensorList* tensors, void* addr);
ACL_META_EXPORT aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor* executor,
                                                    size_t irIndex,
                                                    const size_t relativeIndex,
                                                    aclTensorList* tensors,
                                                    void* addr);

// Records tensors in the order of the stream while the file of aclInit or
// aclmdlSetDump asks for a dump, or FLASHACL_RECORD does; else only checks.
//   opType, opName  an operator of the program's own, as the record names it
//   tensors         inputs, then outputs; as their handles describe them
// 161001: a null pointer; 161002: no live tensor; 361001: no live stream.
ACL_META_EXPORT aclnnStatus aclDumpOpTensors(
    const char* opType, const char* opName, aclTensor** tensors,
    size_t inputTensorNum, size_t outputTensorNum, aclrtStream stream);

#ifdef __cplusplus
}  // extern "C"
#endif
