// SPDX-License-Identifier: Apache-2.0
//
// The numbers and layouts that compiled programs have inside them: enumerators,
// error codes, struct layouts, exact function types. A change here breaks every
// program that was built before it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "acl/acl.h"
#include "acl/acl_rt_api.h"
#include "aclnn/acl_meta.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_incre_flash_attention.h"
#include "aclnnop/aclnn_incre_flash_attention_v2.h"
#include "aclnnop/aclnn_incre_flash_attention_v3.h"
#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "aclnnop/aclnn_prompt_flash_attention_v2.h"
#include "aclnnop/aclnn_prompt_flash_attention_v3.h"
#include "aclnnop/aclnn_sparse_flash_attention.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "aclnnop/aclnn_sparse_flash_attention_v2.h"
#include "securec.h"

namespace {

template <typename A, typename B>
constexpr bool kSame = std::is_same_v<A, B>;

struct Number {
  const char* name;
  int64_t actual;
  int64_t expected;
};

#define NUMBER(name, expected) \
  Number { #name, static_cast < int64_t>(name), expected }

template <size_t kCount>
void ExpectNumbers(const Number (&numbers)[kCount]) {
  for (const Number& number : numbers) {
    EXPECT_EQ(number.actual, number.expected) << number.name;
  }
}

TEST(Headers, DataTypesAndFormats) {
  ExpectNumbers({
      NUMBER(ACL_DT_UNDEFINED, -1),
      NUMBER(ACL_FLOAT, 0),
      NUMBER(ACL_FLOAT16, 1),
      NUMBER(ACL_INT8, 2),
      NUMBER(ACL_INT32, 3),
      NUMBER(ACL_UINT8, 4),
      NUMBER(ACL_INT16, 6),
      NUMBER(ACL_UINT16, 7),
      NUMBER(ACL_UINT32, 8),
      NUMBER(ACL_INT64, 9),
      NUMBER(ACL_UINT64, 10),
      NUMBER(ACL_DOUBLE, 11),
      NUMBER(ACL_BOOL, 12),
      NUMBER(ACL_STRING, 13),
      NUMBER(ACL_COMPLEX64, 16),
      NUMBER(ACL_COMPLEX128, 17),
      NUMBER(ACL_BF16, 27),
      NUMBER(ACL_INT4, 29),
      NUMBER(ACL_UINT1, 30),
      NUMBER(ACL_COMPLEX32, 33),
      NUMBER(ACL_HIFLOAT8, 34),
      NUMBER(ACL_FLOAT8_E5M2, 35),
      NUMBER(ACL_FLOAT8_E4M3FN, 36),
      NUMBER(ACL_FLOAT8_E8M0, 37),
      NUMBER(ACL_FLOAT6_E3M2, 38),
      NUMBER(ACL_FLOAT6_E2M3, 39),
      NUMBER(ACL_FLOAT4_E2M1, 40),
      NUMBER(ACL_FLOAT4_E1M2, 41),
      NUMBER(ACL_FORMAT_UNDEFINED, -1),
      NUMBER(ACL_FORMAT_NCHW, 0),
      NUMBER(ACL_FORMAT_NHWC, 1),
      NUMBER(ACL_FORMAT_ND, 2),
      NUMBER(ACL_FORMAT_NC1HWC0, 3),
      NUMBER(ACL_FORMAT_FRACTAL_Z, 4),
      NUMBER(ACL_FORMAT_NC1HWC0_C04, 12),
      NUMBER(ACL_FORMAT_HWCN, 16),
      NUMBER(ACL_FORMAT_NDHWC, 27),
      NUMBER(ACL_FORMAT_FRACTAL_NZ, 29),
      NUMBER(ACL_FORMAT_NCDHW, 30),
      NUMBER(ACL_FORMAT_NDC1HWC0, 32),
      NUMBER(ACL_FRACTAL_Z_3D, 33),
      NUMBER(ACL_FORMAT_NC, 35),
      NUMBER(ACL_FORMAT_NCL, 47),
      NUMBER(ACL_FORMAT_FRACTAL_NZ_C0_16, 50),
      NUMBER(ACL_FORMAT_FRACTAL_NZ_C0_32, 51),
      NUMBER(ACL_FORMAT_FRACTAL_NZ_C0_2, 52),
      NUMBER(ACL_FORMAT_FRACTAL_NZ_C0_4, 53),
      NUMBER(ACL_FORMAT_FRACTAL_NZ_C0_8, 54),
  });
}

constexpr Number kRuntimeEnumerators[] = {
    NUMBER(ACL_MEMCPY_HOST_TO_HOST, 0),
    NUMBER(ACL_MEMCPY_HOST_TO_DEVICE, 1),
    NUMBER(ACL_MEMCPY_DEVICE_TO_HOST, 2),
    NUMBER(ACL_MEMCPY_DEVICE_TO_DEVICE, 3),
    NUMBER(ACL_MEMCPY_DEFAULT, 4),
    NUMBER(ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, 5),
    NUMBER(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, 6),
    NUMBER(ACL_MEMCPY_INTER_DEVICE_TO_DEVICE, 7),
    NUMBER(ACL_MEM_MALLOC_HUGE_FIRST, 0),
    NUMBER(ACL_MEM_MALLOC_HUGE_ONLY, 1),
    NUMBER(ACL_MEM_MALLOC_NORMAL_ONLY, 2),
    NUMBER(ACL_MEM_MALLOC_NORMAL_ONLY_P2P, 5),
    NUMBER(ACL_MEM_MALLOC_HUGE1G_ONLY, 6),
    NUMBER(ACL_MEM_MALLOC_HUGE1G_ONLY_P2P, 7),
    NUMBER(ACL_MEM_TYPE_LOW_BAND_WIDTH, 0x100),
    NUMBER(ACL_MEM_TYPE_HIGH_BAND_WIDTH, 0x1000),
    NUMBER(ACL_MEM_ACCESS_USER_SPACE_READONLY, 0x100000),
    NUMBER(ACL_DEVICE, 0),
    NUMBER(ACL_HOST, 1),
    NUMBER(ACL_OPT_DETERMINISTIC, 0),
    NUMBER(ACL_OPT_ENABLE_KERNEL_EARLY_START, 3),
    NUMBER(ACL_DDR_MEM, 0),
    NUMBER(ACL_HBM_MEM, 1),
    NUMBER(ACL_HBM_MEM_HUGE1G, 10),
    NUMBER(ACL_MEM_P2P_HUGE1G, 17),
    NUMBER(ACL_EVENT_RECORDED_STATUS_NOT_READY, 0),
    NUMBER(ACL_EVENT_RECORDED_STATUS_COMPLETE, 1),
    NUMBER(ACL_EVENT_STATUS_COMPLETE, 0),
    NUMBER(ACL_EVENT_STATUS_NOT_READY, 1),
    NUMBER(ACL_EVENT_WAIT_STATUS_NOT_READY, 1),
    NUMBER(ACL_EVENT_WAIT_STATUS_RESERVED, 0xFFFF),
    NUMBER(ACL_STREAM_STATUS_COMPLETE, 0),
    NUMBER(ACL_STREAM_STATUS_NOT_READY, 1),
    NUMBER(ACL_STREAM_STATUS_RESERVED, 0xFFFF),
    NUMBER(ACL_CALLBACK_NO_BLOCK, 0),
    NUMBER(ACL_CALLBACK_BLOCK, 1),
    NUMBER(ACL_TS_ID_RESERVED, 2),
    NUMBER(ACL_RT_OVERFLOW_MODE_INFNAN, 1),
    NUMBER(ACL_MEM_LOCATION_TYPE_HOST, 0),
    NUMBER(ACL_MEM_LOCATION_TYPE_DEVICE, 1),
    NUMBER(ACL_MEM_LOCATION_TYPE_UNREGISTERED, 2),
    NUMBER(ACL_HOST_REGISTER_IOMEMORY, 4),
    NUMBER(ACL_RT_DEVICE_STATUS_END, 0xFFFF),
    NUMBER(ACL_RT_DEV_RES_VECTOR_CORE, 1),
    NUMBER(ACL_RT_THREAD_LEVEL, 0),
    NUMBER(ACL_STREAM_ATTR_FAILURE_MODE, 1),
    NUMBER(ACL_STREAM_ATTR_PRIORITY, 5),
    NUMBER(ACL_CANN_ATTR_UNDEFINED, -1),
    NUMBER(ACL_CANN_ATTR_JIT_COMPILE, 2),
    NUMBER(ACL_DEVICE_INFO_L2_SIZE, 2),
    NUMBER(ACL_DEV_ATTR_AICPU_CORE_NUM, 1),
    NUMBER(ACL_DEV_ATTR_CUBE_CORE_NUM, 102),
    NUMBER(ACL_DEV_ATTR_VECTOR_CORE_NUM, 201),
    NUMBER(ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, 301),
    NUMBER(ACL_DEV_ATTR_NPU_ARCH, 601),
    NUMBER(ACL_PKG_NAME_DRIVER, 7),
    NUMBER(ACL_REG_TYPE_ACL_RETR, 7),
    NUMBER(ACL_REG_TYPE_OTHER, 0xFFFF),
    NUMBER(ACL_MODEL_RI_CAPTURE_MODE_RELAXED, 2),
    NUMBER(ACL_EVENT_SYNC, 0x1),
    NUMBER(ACL_EVENT_TIME_LINE, 0x8),
    NUMBER(ACL_EVENT_IPC, 0x40),
    NUMBER(ACL_IPC_EVENT_HANDLE_SIZE, 64),
    NUMBER(ACL_MEM_HANDLE_TYPE_POSIX, 2),
    NUMBER(ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 2),
    NUMBER(ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION, 1),
    NUMBER(ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS, 1),
    NUMBER(ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, 1),
    NUMBER(ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION, 2),
    NUMBER(ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS, 2),
    NUMBER(ACL_STREAM_DEVICE_USE_ONLY, 0x20),
    NUMBER(ACL_HOST_REG_PINNED, 0x10000000),
    NUMBER(ACL_MAJOR_VERSION, 1),
    NUMBER(ACL_MINOR_VERSION, 17),
    NUMBER(ACL_PATCH_VERSION, 0),
};

TEST(Headers, RuntimeEnumerators) { ExpectNumbers(kRuntimeEnumerators); }

constexpr Number kErrorCodes[] = {
    NUMBER(ACL_SUCCESS, 0),
    NUMBER(ACL_ERROR_INVALID_PARAM, 100000),
    NUMBER(ACL_ERROR_REPEAT_INITIALIZE, 100002),
    NUMBER(ACL_ERROR_INVALID_FILE, 100003),
    NUMBER(ACL_ERROR_PARSE_FILE, 100006),
    NUMBER(ACL_ERROR_INVALID_PROFILING_CONFIG, 100010),
    NUMBER(ACL_ERROR_REPEAT_FINALIZE, 100037),
    NUMBER(ACL_ERROR_DUMP_NOT_RUN, 100045),
    NUMBER(ACL_ERROR_PROF_REPEAT_SUBSCRIBE, 148046),
    NUMBER(ACL_ERROR_INVALID_BUNDLE_MODEL_ID, 148053),
    NUMBER(ACL_ERROR_BAD_ALLOC, 200000),
    NUMBER(ACL_ERROR_FEATURE_UNSUPPORTED, 200006),
    NUMBER(ACL_ERROR_STORAGE_OVER_LIMIT, 300000),
    NUMBER(ACL_ERROR_PROFILING_FAILURE, 500005),
    NUMBER(ACL_ERROR_RT_PARAM_INVALID, 107000),
    NUMBER(ACL_ERROR_RT_INVALID_DEVICEID, 107001),
    NUMBER(ACL_ERROR_RT_CONTEXT_NULL, 107002),
    NUMBER(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, 107006),
    NUMBER(ACL_ERROR_RT_STREAM_SUBSCRIBE, 107011),
    NUMBER(ACL_ERROR_RT_THREAD_SUBSCRIBE, 107012),
    NUMBER(ACL_ERROR_RT_STREAM_NO_CB_REG, 107015),
    NUMBER(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, 107021),
    NUMBER(ACL_ERROR_RT_STREAM_ABORT, 107023),
    NUMBER(ACL_ERROR_STREAM_CAPTURE_CONFLICT, 107032),
    NUMBER(ACL_ERROR_RT_TASK_ABORT_STOP, 107035),
    NUMBER(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, 107045),
    NUMBER(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 207000),
    NUMBER(ACL_ERROR_RT_MEMORY_ALLOCATION, 207001),
    NUMBER(ACL_ERROR_RT_NO_EVENT_RESOURCE, 207007),
    NUMBER(ACL_ERROR_RT_NO_STREAM_RESOURCE, 207008),
    NUMBER(ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED, 207021),
    NUMBER(ACL_ERROR_RT_INTERNAL_ERROR, 507000),
    NUMBER(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, 507007),
    NUMBER(ACL_ERROR_RT_REPORT_TIMEOUT, 507012),
    NUMBER(ACL_ERROR_RT_AICORE_EXCEPTION, 507015),
    NUMBER(ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW, 507042),
    NUMBER(ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW, 507045),
    NUMBER(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, 507046),
    NUMBER(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, 507047),
    NUMBER(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, 507057),
    NUMBER(ACL_ERROR_RT_DRV_INTERNAL_ERROR, 507899),
    NUMBER(ACL_ERROR_RT_COMM_OP_RETRY_FAIL, 507904),
    NUMBER(ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT, 507905),
    NUMBER(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 507910),
    NUMBER(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, 507911),
    NUMBER(ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED, 507913),
    NUMBER(ACL_ERROR_RT_CCU_EXCEPTION, 507916),
    NUMBER(ACL_ERROR_GE_PARAM_INVALID, 145000),
    NUMBER(ACLNN_SUCCESS, 0),
    NUMBER(ACLNN_ERR_PARAM_NULLPTR, 161001),
    NUMBER(ACLNN_ERR_PARAM_INVALID, 161002),
    NUMBER(ACLNN_ERR_RUNTIME_ERROR, 361001),
    NUMBER(ACLNN_ERR_INNER, 561000),
    NUMBER(ACLNN_ERR_INNER_TILING_ERROR, 561002),
    NUMBER(ACLNN_ERR_INNER_NULLPTR, 561103),
    NUMBER(ACLNN_ERR_INNER_KEY_CONFLICT, 561105),
    NUMBER(ACLNN_ERR_INNER_KEY_CONFILICT, 561105),
    NUMBER(ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID, 561119),
    NUMBER(OK, 0),
    NUMBER(EOK, 0),
    NUMBER(EINVAL_AND_RESET, 150),
    NUMBER(ERANGE_AND_RESET, 162),
    NUMBER(EOVERLAP_AND_RESET, 182),
};

TEST(Headers, ErrorCodes) { ExpectNumbers(kErrorCodes); }

// Layouts on a 64-bit machine.
TEST(Headers, StructLayouts) {
  ExpectNumbers({
      NUMBER(sizeof(aclrtIpcEventHandle), 64),
      NUMBER(sizeof(aclrtMemFabricHandle), 128),
      NUMBER(sizeof(aclrtMemLocation), 8),
      NUMBER(offsetof(aclrtMemLocation, type), 4),
      NUMBER(sizeof(aclrtPtrAttributes), 28),
      NUMBER(offsetof(aclrtPtrAttributes, pageSize), 8),
      NUMBER(offsetof(aclrtPtrAttributes, rsv), 12),
      NUMBER(sizeof(aclrtMemcpyBatchAttr), 32),
      NUMBER(offsetof(aclrtMemcpyBatchAttr, srcLoc), 8),
      NUMBER(sizeof(aclrtMallocAttribute), 12),
      NUMBER(offsetof(aclrtMallocAttribute, value), 4),
      NUMBER(sizeof(aclrtMallocConfig), 16),
      NUMBER(offsetof(aclrtMallocConfig, numAttrs), 8),
      NUMBER(sizeof(aclrtStreamAttrValue), 16),
      NUMBER(sizeof(aclrtUtilizationInfo), 24),
      NUMBER(offsetof(aclrtUtilizationInfo, utilizationExtend), 16),
      NUMBER(sizeof(aclrtUuid), 16),
      NUMBER(sizeof(aclrtMemUsageInfo), 112),
      NUMBER(offsetof(aclrtMemUsageInfo, curMemSize), 32),
      NUMBER(offsetof(aclrtMemUsageInfo, reserved), 48),
      NUMBER(sizeof(aclCANNPackageVersion), 512),
      NUMBER(offsetof(aclCANNPackageVersion, majorVersion), 128),
      NUMBER(offsetof(aclCANNPackageVersion, patchVersion), 320),
      NUMBER(sizeof(aclrtPhysicalMemProp), 32),
      NUMBER(offsetof(aclrtPhysicalMemProp, location), 12),
      NUMBER(offsetof(aclrtPhysicalMemProp, reserve), 24),
      NUMBER(sizeof(aclDataType), 4),
  });
}

// Programs give these to unique_ptr as deleters of exactly these types, and
// load them at run time under them.
static_assert(kSame<decltype(&aclrtFree), aclError (*)(void*)>);
static_assert(kSame<decltype(&aclrtFreeHost), aclError (*)(void*)>);
static_assert(
    kSame<decltype(&aclDestroyTensor), int32_t (*)(const aclTensor*)>);
static_assert(
    kSame<decltype(&aclDestroyIntArray), int32_t (*)(const aclIntArray*)>);
static_assert(
    kSame<decltype(&aclDestroyTensorList), int32_t (*)(const aclTensorList*)>);
static_assert(kSame<aclError, int> && kSame<aclnnStatus, int32_t>);
static_assert(kSame<aclFloat16, uint16_t>);

// Every handle of the runtime is a plain pointer.
static_assert(kSame<aclrtStream, void*> && kSame<aclrtContext, void*> &&
              kSame<aclrtEvent, void*> && kSame<aclmdlRI, void*> &&
              kSame<aclrtDrvMemHandle, void*> && kSame<aclrtNotify, void*>);

// The second phase has one type for all operators.
using Launch = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);
static_assert(kSame<decltype(&aclnnPromptFlashAttention), Launch>);
static_assert(kSame<decltype(&aclnnPromptFlashAttentionV2), Launch>);
static_assert(kSame<decltype(&aclnnPromptFlashAttentionV3), Launch>);
static_assert(kSame<decltype(&aclnnIncreFlashAttention), Launch>);
static_assert(kSame<decltype(&aclnnIncreFlashAttentionV2), Launch>);
static_assert(kSame<decltype(&aclnnIncreFlashAttentionV3), Launch>);
static_assert(kSame<decltype(&aclnnIncreFlashAttentionV4), Launch>);
static_assert(kSame<decltype(&aclnnSparseFlashAttention), Launch>);
static_assert(kSame<decltype(&aclnnSparseFlashAttentionV2), Launch>);
static_assert(kSame<decltype(&aclnnSparseFlashAttentionGrad), Launch>);

// The first phases, by the letters T, L and A for tensors, lists and arrays.
using T = const aclTensor*;
using L = const aclTensorList*;
using A = const aclIntArray*;
using I = int64_t;
using D = double;
using S = char*;
using W = uint64_t*;
using E = aclOpExecutor**;
static_assert(
    kSame<decltype(&aclnnPromptFlashAttentionGetWorkspaceSize),
          aclnnStatus (*)(T, T, T, T, T, A, I, D, I, I, S, I, T, W, E)>);
static_assert(kSame<decltype(&aclnnPromptFlashAttentionV2GetWorkspaceSize),
                    aclnnStatus (*)(T, T, T, T, T, A, A, T, T, T, T, T, I, D, I,
                                    I, S, I, I, T, W, E)>);
static_assert(kSame<decltype(&aclnnPromptFlashAttentionV3GetWorkspaceSize),
                    aclnnStatus (*)(T, T, T, T, T, A, A, T, T, T, T, T, I, D, I,
                                    I, S, I, I, I, T, W, E)>);
static_assert(kSame<decltype(&aclnnIncreFlashAttentionGetWorkspaceSize),
                    aclnnStatus (*)(T, L, L, T, T, A, I, D, S, I, T, W, E)>);
static_assert(kSame<decltype(&aclnnIncreFlashAttentionV2GetWorkspaceSize),
                    aclnnStatus (*)(T, L, L, T, T, A, T, T, T, T, T, I, D, S, I,
                                    T, W, E)>);
static_assert(kSame<decltype(&aclnnIncreFlashAttentionV3GetWorkspaceSize),
                    aclnnStatus (*)(T, L, L, T, T, A, T, T, T, T, T, T, T, T, I,
                                    D, S, I, I, I, T, W, E)>);
static_assert(kSame<decltype(&aclnnIncreFlashAttentionV4GetWorkspaceSize),
                    aclnnStatus (*)(T, L, L, T, T, A, T, T, T, T, T, T, T, T, T,
                                    I, D, S, I, I, I, T, W, E)>);
static_assert(kSame<decltype(&aclnnSparseFlashAttentionGetWorkspaceSize),
                    aclnnStatus (*)(T, T, T, T, T, T, T, T, T, D, I, S, S, I, I,
                                    I, I, bool, T, T, T, W, E)>);
static_assert(kSame<decltype(&aclnnSparseFlashAttentionV2GetWorkspaceSize),
                    aclnnStatus (*)(T, T, T, T, T, T, T, T, T, T, D, I, S, S, I,
                                    I, I, I, bool, T, T, T, W, E)>);
static_assert(kSame<decltype(&aclnnSparseFlashAttentionGradGetWorkspaceSize),
                    aclnnStatus (*)(T, T, T, T, T, T, T, T, T, T, T, T, D, I, S,
                                    I, I, I, bool, T, T, T, T, T, W, E)>);

}  // namespace
