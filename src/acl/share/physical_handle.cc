// SPDX-License-Identifier: Apache-2.0
// Physical memory in several processes: its file is open in each of them.
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/device.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "acl/physical_memory.h"
#include "acl/raw_enum.h"
#include "acl/share/share_call.h"
#include "acl/share/shared_object.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr aclError kBadHandle = ACL_ERROR_RT_PARAM_INVALID;

aclError Export(aclrtDrvMemHandle handle, int type, uint64_t flags,
                uint64_t* number) {
  constexpr std::string_view kName = "aclrtMemExportToShareableHandle";
  if (handle == nullptr) return FailNull(kName, "handle");
  if (number == nullptr) return FailNull(kName, "shareableHandle");
  if (type != ACL_MEM_HANDLE_TYPE_NONE) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "handleType",
                     Str("{}", type), "ACL_MEM_HANDLE_TYPE_NONE");
  }
  if (flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
    return FailValue(kBadHandle, kName, "flags", Str("{}", flags), "0 or 1");
  }
  const auto memory = Find<PhysicalMemory>(handle);
  if (memory == nullptr) {
    return FailValue(kBadHandle, kName, "handle", Str("{}", handle),
                     ExpectedInsteadOf(HandleKind::kPhysicalMemory, handle));
  }
  std::lock_guard lock(memory->mutex);
  auto& exported = memory->exported;
  // Finalising takes the name away.
  if (exported == nullptr ||
      SharedObject::FindOwn(exported->number()) == nullptr) {
    RemoveShareLeftovers();
    exported = SharedObject::Create(
        ShareKind::kPhysical,
        {memory->file, memory->device_id, 0, memory->size, memory->size});
    if (exported == nullptr) return FailToShare(kName);
  }
  if (flags != 0) exported->AllowAll();
  *number = exported->number();
  return ACL_SUCCESS;
}

aclError SetPids(uint64_t number, const int32_t* pids, size_t count) {
  constexpr std::string_view kName = "aclrtMemSetPidToShareableHandle";
  if (pids == nullptr) return FailNull(kName, "pid");
  if (count == 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "pidNum", "0",
                     "more than 0");
  }
  const auto object = SharedObject::FindOwn(number);
  if (object == nullptr || object->kind() != ShareKind::kPhysical) {
    return FailValue(kBadHandle, kName, "shareableHandle", Str("{}", number),
                     "a handle of memory that this process has exported");
  }
  return AllowProcesses(kName, *object, pids, count);
}

aclError Import(uint64_t number, int32_t device, aclrtDrvMemHandle* handle) {
  constexpr std::string_view kName = "aclrtMemImportFromShareableHandle";
  constexpr aclError kNoSuchHandle = ACL_ERROR_RT_DRV_INTERNAL_ERROR;
  if (handle == nullptr) return FailNull(kName, "handle");
  if (const aclError error = RequireDevice(kName, device)) return error;
  std::shared_ptr<SharedObject> object;
  ShareOpening opening =
      SharedObject::Open(number, ShareKind::kPhysical, &object);
  auto memory = std::make_shared<PhysicalMemory>();
  if (opening == ShareOpening::kOpened) {
    memory->file = object->OpenFile();
    if (memory->file < 0) opening = ShareOpening::kUnknown;
  }
  if (opening != ShareOpening::kOpened) {
    return FailToOpen(opening, kName, "shareableHandle", Str("{}", number),
                      kNoSuchHandle);
  }
  memory->size = object->file().size;
  memory->device_id = device;
  void* const made = NewHandle(std::move(memory));
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                Str("{} failed because there are no handles left.", kName));
  }
  *handle = made;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle,
                                         aclrtMemHandleType handleType,
                                         uint64_t flags,
                                         uint64_t* shareableHandle) {
  return acl::GuardRuntime([&] {
    return acl::Export(handle, acl::Raw(handleType), flags, shareableHandle);
  });
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid,
                                         size_t pidNum) {
  return acl::GuardRuntime(
      [&] { return acl::SetPids(shareableHandle, pid, pidNum); });
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle,
                                           int32_t deviceId,
                                           aclrtDrvMemHandle* handle) {
  return acl::GuardRuntime(
      [&] { return acl::Import(shareableHandle, deviceId, handle); });
}

}  // extern "C"
