// SPDX-License-Identifier: Apache-2.0
//
// Handles, error codes, data types and formats of the runtime, and the few
// functions that need no device. Source: CANN acl API, "data types and their
// operations" and "system configuration".
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl/error_codes/acl_error_codes.h"

// Callers see plain declarations; the library defines FUNC_VISIBILITY and so
// exports exactly what is declared here although the rest of it is hidden.
#if defined(FUNC_VISIBILITY)
#define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))
#else
#define ACL_FUNC_VISIBILITY
#endif

#define ACL_DEPRECATED __attribute__((deprecated))
#define ACL_DEPRECATED_MESSAGE(message) __attribute__((deprecated(message)))

// The version of the acl API these headers describe.
#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0

// Capacity of the texts in aclCANNPackageVersion, in bytes with the final NUL.
#define ACL_PKG_VERSION_MAX_SIZE 128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

#ifdef __cplusplus
extern "C" {
#endif

// Handles. Whoever creates one destroys it; a null aclrtStream means the
// default stream of the current context wherever a stream is used.
typedef void* aclrtStream;
typedef void* aclrtContext;
typedef void* aclrtEvent;
typedef void* aclrtNotify;
typedef void* aclrtCntNotify;
typedef void* aclrtLabel;
typedef void* aclrtLabelList;
typedef void* aclrtMbuf;
typedef void* aclrtTaskGrp;
typedef void* aclmdlRI;
typedef void* aclrtDrvMemHandle;
typedef void* aclrtBinary;
typedef void* aclrtBinHandle;
typedef void* aclrtFuncHandle;
typedef void* aclrtArgsHandle;
typedef void* aclrtParamHandle;
typedef void* aclrtAllocator;
typedef void* aclrtAllocatorDesc;
typedef void* aclrtAllocatorBlock;
typedef void* aclrtAllocatorAddr;

// The bits of an IEEE half precision number.
typedef uint16_t aclFloat16;

// The type of one tensor element. Sizes: see aclDataTypeSize.
typedef enum {
  ACL_DT_UNDEFINED = -1,
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT8 = 2,
  ACL_INT32 = 3,
  ACL_UINT8 = 4,
  ACL_INT16 = 6,
  ACL_UINT16 = 7,
  ACL_UINT32 = 8,
  ACL_INT64 = 9,
  ACL_UINT64 = 10,
  ACL_DOUBLE = 11,
  ACL_BOOL = 12,
  ACL_STRING = 13,
  ACL_COMPLEX64 = 16,
  ACL_COMPLEX128 = 17,
  ACL_BF16 = 27,
  ACL_INT4 = 29,
  ACL_UINT1 = 30,
  ACL_COMPLEX32 = 33,
  ACL_HIFLOAT8 = 34,
  ACL_FLOAT8_E5M2 = 35,
  ACL_FLOAT8_E4M3FN = 36,
  ACL_FLOAT8_E8M0 = 37,
  ACL_FLOAT6_E3M2 = 38,
  ACL_FLOAT6_E2M3 = 39,
  ACL_FLOAT4_E2M1 = 40,
  ACL_FLOAT4_E1M2 = 41,
} aclDataType;

// How a tensor's storage is arranged. ND, NCHW, NHWC, NCL and NCDHW are plain
// strided storage to us; what the letters stand for has no effect.
typedef enum {
  ACL_FORMAT_UNDEFINED = -1,
  ACL_FORMAT_NCHW = 0,
  ACL_FORMAT_NHWC = 1,
  ACL_FORMAT_ND = 2,
  ACL_FORMAT_NC1HWC0 = 3,
  ACL_FORMAT_FRACTAL_Z = 4,
  ACL_FORMAT_NC1HWC0_C04 = 12,
  ACL_FORMAT_HWCN = 16,
  ACL_FORMAT_NDHWC = 27,
  ACL_FORMAT_FRACTAL_NZ = 29,
  ACL_FORMAT_NCDHW = 30,
  ACL_FORMAT_NDC1HWC0 = 32,
  ACL_FRACTAL_Z_3D = 33,
  ACL_FORMAT_NC = 35,
  ACL_FORMAT_NCL = 47,
  ACL_FORMAT_FRACTAL_NZ_C0_16 = 50,
  ACL_FORMAT_FRACTAL_NZ_C0_32 = 51,
  ACL_FORMAT_FRACTAL_NZ_C0_2 = 52,
  ACL_FORMAT_FRACTAL_NZ_C0_4 = 53,
  ACL_FORMAT_FRACTAL_NZ_C0_8 = 54,
} aclFormat;

typedef enum {
  ACL_DEBUG = 0,
  ACL_INFO = 1,
  ACL_WARNING = 2,
  ACL_ERROR = 3,
} aclLogLevel;

// Where a tensor description's data lives.
typedef enum {
  ACL_MEMTYPE_DEVICE = 0,
  ACL_MEMTYPE_HOST = 1,
  ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT = 2,
} aclMemType;

// A feature an installation may or may not have.
typedef enum {
  ACL_CANN_ATTR_UNDEFINED = -1,
  ACL_CANN_ATTR_INF_NAN = 0,
  ACL_CANN_ATTR_BF16 = 1,
  ACL_CANN_ATTR_JIT_COMPILE = 2,
} aclCannAttr;

typedef enum {
  ACL_DEVICE_INFO_UNDEFINED = -1,
  ACL_DEVICE_INFO_AI_CORE_NUM = 0,
  ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
  ACL_DEVICE_INFO_L2_SIZE = 2,
} aclDeviceInfo;

// Bytes of one element. 0 for ACL_DT_UNDEFINED and ACL_STRING, 1 for the packed
// ACL_INT4 and ACL_UINT1, and 8 for 6-bit, 4-bit float and unknown types: good
// enough to allocate from, not to address with.
ACL_FUNC_VISIBILITY size_t aclDataTypeSize(aclDataType dataType);

// The number a half stands for. Inf and NaN are read as if the format had none:
// 0x7C00 is 65536.
ACL_FUNC_VISIBILITY float aclFloat16ToFloat(aclFloat16 value);

// The nearest half, ties to even. Saturates: +Inf, NaN and what is too large
// give 0x7BFF, -Inf and what is too small 0xFBFF.
ACL_FUNC_VISIBILITY aclFloat16 aclFloatToFloat16(float value);

// The attributes this installation supports. *attrList points to an array of
// *num entries that belongs to the library and lives as long as the process.
// 100000: a null pointer.
ACL_FUNC_VISIBILITY aclError
aclGetCannAttributeList(const aclCannAttr** attrList, size_t* num);

// *value = 1 if the attribute is supported, else 0. 100000: null or unknown.
ACL_FUNC_VISIBILITY aclError aclGetCannAttribute(aclCannAttr cannAttr,
                                                 int32_t* value);

// Number of cores, or bytes of level 2 cache. 100000: bad device, information
// or null pointer.
ACL_FUNC_VISIBILITY aclError aclGetDeviceCapability(uint32_t deviceId,
                                                    aclDeviceInfo deviceInfo,
                                                    int64_t* value);

// Writes one line, cut at 1023 bytes, to the application log. `fmt` and what
// follows are printf's.
ACL_FUNC_VISIBILITY void aclAppLog(aclLogLevel logLevel, const char* func,
                                   const char* file, uint32_t line,
                                   const char* fmt, ...);

#define ACL_APP_LOG(level, ...) \
  aclAppLog(level, __func__, __FILE__, __LINE__, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
