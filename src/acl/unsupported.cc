// SPDX-License-Identifier: Apache-2.0
// What is declared and not offered: programs that name it link, and are told
// when they call it.
#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_tdt.h"
#include "acl/error.h"

namespace flashacl::acl {
namespace {

aclError NotOffered(const char* function) {
  return GuardRuntime([&] {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                Str("{} is not supported.", function));
  });
}

}  // namespace
}  // namespace flashacl::acl

// One function: its name and the types of its parameters.
#define FLASHACL_LATER(name, ...) \
  aclError name(__VA_ARGS__) { return flashacl::acl::NotOffered(#name); }
// The same for one that makes an object.
#define FLASHACL_LATER_OBJECT(type, name, ...) \
  type name(__VA_ARGS__) {                     \
    flashacl::acl::NotOffered(#name);          \
    return nullptr;                            \
  }
#define FLASHACL_NO_OP(name, ...) \
  aclError name(__VA_ARGS__) { return ACL_SUCCESS; }

extern "C" {

// Graphs.
FLASHACL_LATER(aclmdlRICaptureBegin, aclrtStream, aclmdlRICaptureMode)
FLASHACL_LATER(aclmdlRICaptureGetInfo, aclrtStream, aclmdlRICaptureStatus*,
               aclmdlRI*)
FLASHACL_LATER(aclmdlRICaptureEnd, aclrtStream, aclmdlRI*)
FLASHACL_LATER(aclmdlRICaptureThreadExchangeMode, aclmdlRICaptureMode*)
FLASHACL_LATER(aclmdlRIExecute, aclmdlRI, int32_t)
FLASHACL_LATER(aclmdlRIExecuteAsync, aclmdlRI, aclrtStream)
FLASHACL_LATER(aclmdlRIAbort, aclmdlRI)
FLASHACL_LATER(aclmdlRIDestroy, aclmdlRI)
FLASHACL_LATER(aclmdlRIDebugPrint, aclmdlRI)
FLASHACL_LATER(aclmdlRIDebugJsonPrint, aclmdlRI, const char*, uint32_t)
FLASHACL_LATER(aclmdlRICaptureTaskGrpBegin, aclrtStream)
FLASHACL_LATER(aclmdlRICaptureTaskGrpEnd, aclrtStream, aclrtTaskGrp*)
FLASHACL_LATER(aclmdlRICaptureTaskUpdateBegin, aclrtStream, aclrtTaskGrp)
FLASHACL_LATER(aclmdlRICaptureTaskUpdateEnd, aclrtStream)
FLASHACL_LATER(aclmdlRIBuildBegin, aclmdlRI*, uint32_t)
FLASHACL_LATER(aclmdlRIBuildEnd, aclmdlRI, void*)
FLASHACL_LATER(aclmdlRIBindStream, aclmdlRI, aclrtStream, uint32_t)
FLASHACL_LATER(aclmdlRIUnbindStream, aclmdlRI, aclrtStream)
FLASHACL_LATER(aclmdlRIEndTask, aclmdlRI, aclrtStream)
FLASHACL_LATER(aclmdlRISetName, aclmdlRI, const char*)
FLASHACL_LATER(aclmdlRIGetName, aclmdlRI, uint32_t, char*)

// Notifies, labels and groups.
FLASHACL_LATER(aclrtCreateNotify, aclrtNotify*, uint64_t)
FLASHACL_LATER(aclrtDestroyNotify, aclrtNotify)
FLASHACL_LATER(aclrtRecordNotify, aclrtNotify, aclrtStream)
FLASHACL_LATER(aclrtWaitAndResetNotify, aclrtNotify, aclrtStream, uint32_t)
FLASHACL_LATER(aclrtGetNotifyId, aclrtNotify, uint32_t*)
FLASHACL_LATER(aclrtNotifyBatchReset, aclrtNotify*, size_t)
FLASHACL_LATER(aclrtNotifyGetExportKey, aclrtNotify, char*, size_t, uint64_t)
FLASHACL_LATER(aclrtNotifyImportByKey, aclrtNotify*, const char*, uint64_t)
FLASHACL_LATER(aclrtNotifySetImportPid, aclrtNotify, int32_t*, size_t)
FLASHACL_LATER(aclrtCntNotifyCreate, aclrtCntNotify*, uint64_t)
FLASHACL_LATER(aclrtCntNotifyDestroy, aclrtCntNotify)
FLASHACL_LATER(aclrtCntNotifyReset, aclrtCntNotify, aclrtStream)
FLASHACL_LATER(aclrtCntNotifyGetId, aclrtCntNotify, uint32_t*)
FLASHACL_LATER(aclrtCreateLabel, aclrtLabel*)
FLASHACL_LATER(aclrtSetLabel, aclrtLabel, aclrtStream)
FLASHACL_LATER(aclrtDestroyLabel, aclrtLabel)
FLASHACL_LATER(aclrtCreateLabelList, aclrtLabel*, size_t, aclrtLabelList*)
FLASHACL_LATER(aclrtDestroyLabelList, aclrtLabelList)
FLASHACL_LATER(aclrtSwitchLabelByIndex, void*, uint32_t, aclrtLabelList,
               aclrtStream)
FLASHACL_LATER(aclrtActiveStream, aclrtStream, aclrtStream)
FLASHACL_LATER(aclrtSetGroup, int32_t)
FLASHACL_LATER(aclrtGetGroupCount, uint32_t*)
FLASHACL_LATER_OBJECT(aclrtGroupInfo*, aclrtCreateGroupInfo, void)
FLASHACL_LATER(aclrtDestroyGroupInfo, aclrtGroupInfo*)
FLASHACL_LATER(aclrtGetAllGroupInfo, aclrtGroupInfo*)
FLASHACL_LATER(aclrtGetGroupInfoDetail, const aclrtGroupInfo*, int32_t,
               aclrtGroupAttr, void*, size_t, size_t*)

// Kernels of the program.
FLASHACL_LATER_OBJECT(aclrtBinary, aclrtCreateBinary, const void*, size_t)
FLASHACL_LATER(aclrtDestroyBinary, aclrtBinary)
FLASHACL_LATER(aclrtBinaryLoad, const aclrtBinary, aclrtBinHandle*)
FLASHACL_LATER(aclrtBinaryUnLoad, aclrtBinHandle)
FLASHACL_LATER(aclrtBinaryGetFunction, const aclrtBinHandle, const char*,
               aclrtFuncHandle*)
FLASHACL_LATER(aclrtLaunchKernel, aclrtFuncHandle, uint32_t, const void*,
               size_t, aclrtStream)
FLASHACL_LATER(aclrtGetOverflowStatus, void*, size_t, aclrtStream)
FLASHACL_LATER(aclrtResetOverflowStatus, aclrtStream)

// Memory.
FLASHACL_LATER(aclrtGetMemUsageInfo, int32_t, aclrtMemUsageInfo*, size_t,
               size_t*)
FLASHACL_LATER(aclrtCmoAsync, void*, size_t, aclrtCmoType, aclrtStream)
FLASHACL_LATER(aclrtReduceAsync, void*, const void*, uint64_t, aclrtReduceKind,
               aclDataType, aclrtStream, void*)
FLASHACL_LATER(aclrtValueWrite, void*, uint64_t, uint32_t, aclrtStream)
FLASHACL_LATER(aclrtValueWait, void*, uint64_t, uint32_t, aclrtStream)
FLASHACL_LATER(aclrtMemExportToShareableHandle, aclrtDrvMemHandle,
               aclrtMemHandleType, uint64_t, uint64_t*)
FLASHACL_LATER(aclrtMemImportFromShareableHandle, uint64_t, int32_t,
               aclrtDrvMemHandle*)
FLASHACL_LATER(aclrtMemSetPidToShareableHandle, uint64_t, int32_t*, size_t)
FLASHACL_LATER(aclrtIpcMemGetExportKey, void*, size_t, char*, size_t, uint64_t)
FLASHACL_LATER(aclrtIpcMemSetImportPid, const char*, int32_t*, size_t)
FLASHACL_LATER(aclrtIpcMemImportByKey, void**, const char*, uint64_t)
FLASHACL_LATER(aclrtIpcMemClose, const char*)

// Allocators of the program.
FLASHACL_LATER_OBJECT(aclrtAllocatorDesc, aclrtAllocatorCreateDesc, void)
FLASHACL_LATER(aclrtAllocatorDestroyDesc, aclrtAllocatorDesc)
FLASHACL_LATER(aclrtAllocatorSetObjToDesc, aclrtAllocatorDesc, aclrtAllocator)
FLASHACL_LATER(aclrtAllocatorSetAllocFuncToDesc, aclrtAllocatorDesc,
               aclrtAllocatorAllocFunc)
FLASHACL_LATER(aclrtAllocatorSetFreeFuncToDesc, aclrtAllocatorDesc,
               aclrtAllocatorFreeFunc)
FLASHACL_LATER(aclrtAllocatorSetAllocAdviseFuncToDesc, aclrtAllocatorDesc,
               aclrtAllocatorAllocAdviseFunc)
FLASHACL_LATER(aclrtAllocatorSetGetAddrFromBlockFuncToDesc, aclrtAllocatorDesc,
               aclrtAllocatorGetAddrFromBlockFunc)
FLASHACL_LATER(aclrtAllocatorRegister, aclrtStream, aclrtAllocatorDesc)
FLASHACL_LATER(aclrtAllocatorUnregister, aclrtStream)

// Devices and processes.
FLASHACL_LATER(aclrtDeviceTaskAbort, int32_t, uint32_t)
FLASHACL_LATER(aclrtDeviceGetUuid, int32_t, aclrtUuid*)
FLASHACL_LATER(aclrtDeviceGetBareTgid, int32_t*)
FLASHACL_LATER(aclrtSnapShotProcessLock, void)
FLASHACL_LATER(aclrtSnapShotProcessUnlock, void)
FLASHACL_LATER(aclrtSnapShotProcessBackup, void)
FLASHACL_LATER(aclrtSnapShotProcessRestore, void)

// Models and single operators.
FLASHACL_LATER(aclmdlLoadFromFile, const char*, uint32_t*)
FLASHACL_LATER(aclmdlLoadFromMem, const void*, size_t, uint32_t*)
FLASHACL_LATER(aclmdlUnload, uint32_t)
FLASHACL_LATER(aclmdlQuerySize, const char*, size_t*, size_t*)
FLASHACL_LATER(aclmdlExecute, uint32_t, const aclmdlDataset*, aclmdlDataset*)
FLASHACL_LATER(aclmdlExecuteAsync, uint32_t, const aclmdlDataset*,
               aclmdlDataset*, aclrtStream)
FLASHACL_LATER_OBJECT(aclmdlDesc*, aclmdlCreateDesc, void)
FLASHACL_LATER(aclmdlDestroyDesc, aclmdlDesc*)
FLASHACL_LATER(aclmdlGetDesc, aclmdlDesc*, uint32_t)
size_t aclmdlGetNumInputs(aclmdlDesc*) { return 0; }
size_t aclmdlGetNumOutputs(aclmdlDesc*) { return 0; }
FLASHACL_LATER_OBJECT(aclmdlDataset*, aclmdlCreateDataset, void)
FLASHACL_LATER(aclmdlDestroyDataset, const aclmdlDataset*)
FLASHACL_LATER(aclmdlAddDatasetBuffer, aclmdlDataset*, aclDataBuffer*)
size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset*) { return 0; }
FLASHACL_LATER_OBJECT(aclDataBuffer*, aclmdlGetDatasetBuffer,
                      const aclmdlDataset*, size_t)
FLASHACL_LATER(aclopSetModelDir, const char*)
FLASHACL_LATER(aclopLoad, const void*, size_t)
FLASHACL_LATER_OBJECT(aclopAttr*, aclopCreateAttr, void)
void aclopDestroyAttr(const aclopAttr*) {}
FLASHACL_LATER(aclopSetAttrBool, aclopAttr*, const char*, uint8_t)
FLASHACL_LATER(aclopSetAttrInt, aclopAttr*, const char*, int64_t)
FLASHACL_LATER(aclopSetAttrFloat, aclopAttr*, const char*, float)
FLASHACL_LATER(aclopSetAttrString, aclopAttr*, const char*, const char*)
FLASHACL_LATER(aclopExecuteV2, const char*, int, aclTensorDesc*[],
               aclDataBuffer*[], int, aclTensorDesc*[], aclDataBuffer*[],
               aclopAttr*, aclrtStream)
FLASHACL_LATER(aclopCompileAndExecute, const char*, int,
               const aclTensorDesc* const[], const aclDataBuffer* const[], int,
               const aclTensorDesc* const[], aclDataBuffer* const[],
               const aclopAttr*, aclopEngineType, aclopCompileType, const char*,
               aclrtStream)
FLASHACL_LATER_OBJECT(aclTensorDesc*, aclCreateTensorDesc, aclDataType, int,
                      const int64_t*, aclFormat)
void aclDestroyTensorDesc(const aclTensorDesc*) {}
aclDataType aclGetTensorDescType(const aclTensorDesc*) {
  return ACL_DT_UNDEFINED;
}
aclFormat aclGetTensorDescFormat(const aclTensorDesc*) {
  return ACL_FORMAT_UNDEFINED;
}
size_t aclGetTensorDescSize(const aclTensorDesc*) { return 0; }
size_t aclGetTensorDescElementCount(const aclTensorDesc*) { return 0; }
size_t aclGetTensorDescNumDims(const aclTensorDesc*) { return 0; }
FLASHACL_LATER(aclGetTensorDescDimV2, const aclTensorDesc*, size_t, int64_t*)

// Channels.
FLASHACL_LATER_OBJECT(acltdtDataItem*, acltdtCreateDataItem, acltdtTensorType,
                      const int64_t*, size_t, aclDataType, void*, size_t)
FLASHACL_LATER(acltdtDestroyDataItem, acltdtDataItem*)
FLASHACL_LATER_OBJECT(acltdtDataset*, acltdtCreateDataset, void)
FLASHACL_LATER(acltdtDestroyDataset, acltdtDataset*)
FLASHACL_LATER(acltdtAddDataItem, acltdtDataset*, acltdtDataItem*)
FLASHACL_LATER_OBJECT(acltdtDataItem*, acltdtGetDataItem, const acltdtDataset*,
                      size_t)
size_t acltdtGetDatasetSize(const acltdtDataset*) { return 0; }
FLASHACL_LATER_OBJECT(acltdtChannelHandle*, acltdtCreateChannel, uint32_t,
                      const char*)
FLASHACL_LATER_OBJECT(acltdtChannelHandle*, acltdtCreateChannelWithCapacity,
                      uint32_t, const char*, size_t)
FLASHACL_LATER(acltdtStopChannel, acltdtChannelHandle*)
FLASHACL_LATER(acltdtDestroyChannel, acltdtChannelHandle*)
FLASHACL_LATER(acltdtSendTensor, const acltdtChannelHandle*,
               const acltdtDataset*, int32_t)
FLASHACL_LATER(acltdtReceiveTensor, const acltdtChannelHandle*, acltdtDataset*,
               int32_t)

// Profiling, dumping and compiling: nothing to do, and nothing to complain
// about to frameworks that call these when they start.
FLASHACL_NO_OP(aclmdlInitDump, void)
FLASHACL_NO_OP(aclmdlSetDump, const char*)
FLASHACL_NO_OP(aclmdlFinalizeDump, void)
FLASHACL_NO_OP(aclprofInit, const char*, size_t)
FLASHACL_NO_OP(aclprofFinalize, void)
aclprofConfig* aclprofCreateConfig(uint32_t*, uint32_t, aclprofAicoreMetrics,
                                   const aclprofAicoreEvents*, uint64_t) {
  return nullptr;
}
FLASHACL_NO_OP(aclprofDestroyConfig, const aclprofConfig*)
FLASHACL_NO_OP(aclprofStart, const aclprofConfig*)
FLASHACL_NO_OP(aclprofStop, const aclprofConfig*)
void* aclprofCreateStamp(void) { return nullptr; }
void aclprofDestroyStamp(void*) {}
FLASHACL_NO_OP(aclprofSetStampTraceMessage, void*, const char*, uint32_t)
FLASHACL_NO_OP(aclprofMark, void*)
FLASHACL_NO_OP(aclprofPush, void*)
FLASHACL_NO_OP(aclprofPop, void)
FLASHACL_NO_OP(aclprofRangeStart, void*, uint32_t*)
FLASHACL_NO_OP(aclprofRangeStop, uint32_t)
FLASHACL_NO_OP(aclSetCompileopt, aclCompileOpt, const char*)

}  // extern "C"

#undef FLASHACL_LATER
#undef FLASHACL_LATER_OBJECT
#undef FLASHACL_NO_OP
