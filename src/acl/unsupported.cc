// SPDX-License-Identifier: Apache-2.0
// What is declared and not offered: programs that name it link, and are told
// when they call it.
#include <string_view>

#include "acl/acl.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_tdt.h"
#include "acl/error.h"

namespace flashacl::acl {
namespace {

// Why, by a part of the name; the last are kernels.
struct Reason {
  std::string_view part;
  std::string_view why;
};
constexpr Reason kReasons[] = {
    {"aclmdl", "offline models hold code for the NPU"},
    {"acltdt", "no queue serves channels to a device"},
    {"Allocator", "nothing else allocates device memory"},
    {"Group", "a device is one and has no parts"},
    {"SnapShot", "a process is not saved with its device"},
    {"", "kernels of the program are for the NPU"},
};

std::string_view WhyNot(std::string_view function) {
  const Reason* reason = kReasons;
  while (function.find(reason->part) == function.npos) ++reason;
  return reason->why;
}

aclError NotOffered(const char* function) {
  return GuardRuntime([&] {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                Str("{} is not supported: {}.", function, WhyNot(function)));
  });
}

}  // namespace
}  // namespace flashacl::acl

// One function: its name and the types of its parameters.
#define FLASHACL_UNSUPPORTED(name, ...) \
  aclError name(__VA_ARGS__) { return flashacl::acl::NotOffered(#name); }
// The same for one that makes an object.
#define FLASHACL_UNSUPPORTED_OBJECT(type, name, ...) \
  type name(__VA_ARGS__) {                           \
    flashacl::acl::NotOffered(#name);                \
    return nullptr;                                  \
  }

extern "C" {

// Groups.
FLASHACL_UNSUPPORTED(aclrtSetGroup, int32_t)
FLASHACL_UNSUPPORTED(aclrtGetGroupCount, uint32_t*)
FLASHACL_UNSUPPORTED_OBJECT(aclrtGroupInfo*, aclrtCreateGroupInfo, void)
FLASHACL_UNSUPPORTED(aclrtDestroyGroupInfo, aclrtGroupInfo*)
FLASHACL_UNSUPPORTED(aclrtGetAllGroupInfo, aclrtGroupInfo*)
FLASHACL_UNSUPPORTED(aclrtGetGroupInfoDetail, const aclrtGroupInfo*, int32_t,
                     aclrtGroupAttr, void*, size_t, size_t*)

// Kernels of the program.
FLASHACL_UNSUPPORTED_OBJECT(aclrtBinary, aclrtCreateBinary, const void*, size_t)
FLASHACL_UNSUPPORTED(aclrtDestroyBinary, aclrtBinary)
FLASHACL_UNSUPPORTED(aclrtBinaryLoad, const aclrtBinary, aclrtBinHandle*)
FLASHACL_UNSUPPORTED(aclrtBinaryUnLoad, aclrtBinHandle)
FLASHACL_UNSUPPORTED(aclrtBinaryGetFunction, const aclrtBinHandle, const char*,
                     aclrtFuncHandle*)
FLASHACL_UNSUPPORTED(aclrtBinaryLoadFromData, const void*, size_t,
                     const aclrtBinaryLoadOptions*, aclrtBinHandle*)
FLASHACL_UNSUPPORTED(aclrtGetFunctionAddr, aclrtFuncHandle, void**, void**)
FLASHACL_UNSUPPORTED(aclrtLaunchKernel, aclrtFuncHandle, uint32_t, const void*,
                     size_t, aclrtStream)

// Allocators of the program.
FLASHACL_UNSUPPORTED_OBJECT(aclrtAllocatorDesc, aclrtAllocatorCreateDesc, void)
FLASHACL_UNSUPPORTED(aclrtAllocatorDestroyDesc, aclrtAllocatorDesc)
FLASHACL_UNSUPPORTED(aclrtAllocatorSetObjToDesc, aclrtAllocatorDesc,
                     aclrtAllocator)
FLASHACL_UNSUPPORTED(aclrtAllocatorSetAllocFuncToDesc, aclrtAllocatorDesc,
                     aclrtAllocatorAllocFunc)
FLASHACL_UNSUPPORTED(aclrtAllocatorSetFreeFuncToDesc, aclrtAllocatorDesc,
                     aclrtAllocatorFreeFunc)
FLASHACL_UNSUPPORTED(aclrtAllocatorSetAllocAdviseFuncToDesc, aclrtAllocatorDesc,
                     aclrtAllocatorAllocAdviseFunc)
FLASHACL_UNSUPPORTED(aclrtAllocatorSetGetAddrFromBlockFuncToDesc,
                     aclrtAllocatorDesc, aclrtAllocatorGetAddrFromBlockFunc)
FLASHACL_UNSUPPORTED(aclrtAllocatorRegister, aclrtStream, aclrtAllocatorDesc)
FLASHACL_UNSUPPORTED(aclrtAllocatorUnregister, aclrtStream)

// Processes.
FLASHACL_UNSUPPORTED(aclrtSnapShotProcessLock, int, void*)
FLASHACL_UNSUPPORTED(aclrtSnapShotProcessUnlock, int, void*)
FLASHACL_UNSUPPORTED(aclrtSnapShotProcessBackup, int, aclrtSnapShotBackupArgs*)
FLASHACL_UNSUPPORTED(aclrtSnapShotProcessRestore, int,
                     aclrtSnapShotRestoreArgs*)

// Models.
FLASHACL_UNSUPPORTED(aclmdlLoadFromFile, const char*, uint32_t*)
FLASHACL_UNSUPPORTED(aclmdlLoadFromMem, const void*, size_t, uint32_t*)
FLASHACL_UNSUPPORTED(aclmdlUnload, uint32_t)
FLASHACL_UNSUPPORTED(aclmdlQuerySize, const char*, size_t*, size_t*)
FLASHACL_UNSUPPORTED(aclmdlExecute, uint32_t, const aclmdlDataset*,
                     aclmdlDataset*)
FLASHACL_UNSUPPORTED(aclmdlExecuteAsync, uint32_t, const aclmdlDataset*,
                     aclmdlDataset*, aclrtStream)
FLASHACL_UNSUPPORTED_OBJECT(aclmdlDesc*, aclmdlCreateDesc, void)
FLASHACL_UNSUPPORTED(aclmdlDestroyDesc, aclmdlDesc*)
FLASHACL_UNSUPPORTED(aclmdlGetDesc, aclmdlDesc*, uint32_t)
size_t aclmdlGetNumInputs(aclmdlDesc*) { return 0; }
size_t aclmdlGetNumOutputs(aclmdlDesc*) { return 0; }
FLASHACL_UNSUPPORTED_OBJECT(aclmdlDataset*, aclmdlCreateDataset, void)
FLASHACL_UNSUPPORTED(aclmdlDestroyDataset, const aclmdlDataset*)
FLASHACL_UNSUPPORTED(aclmdlAddDatasetBuffer, aclmdlDataset*, aclDataBuffer*)
size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset*) { return 0; }
FLASHACL_UNSUPPORTED_OBJECT(aclDataBuffer*, aclmdlGetDatasetBuffer,
                            const aclmdlDataset*, size_t)

// Channels.
FLASHACL_UNSUPPORTED_OBJECT(acltdtChannelHandle*, acltdtCreateChannel, uint32_t,
                            const char*)
FLASHACL_UNSUPPORTED_OBJECT(acltdtChannelHandle*,
                            acltdtCreateChannelWithCapacity, uint32_t,
                            const char*, size_t)
FLASHACL_UNSUPPORTED(acltdtStopChannel, acltdtChannelHandle*)
FLASHACL_UNSUPPORTED(acltdtDestroyChannel, acltdtChannelHandle*)
FLASHACL_UNSUPPORTED(acltdtSendTensor, const acltdtChannelHandle*,
                     const acltdtDataset*, int32_t)
FLASHACL_UNSUPPORTED(acltdtReceiveTensor, const acltdtChannelHandle*,
                     acltdtDataset*, int32_t)

}  // extern "C"

#undef FLASHACL_UNSUPPORTED
#undef FLASHACL_UNSUPPORTED_OBJECT
