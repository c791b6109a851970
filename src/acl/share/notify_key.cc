// SPDX-License-Identifier: Apache-2.0
// aclrtNotify*Key: notifies in several processes. Exporting moves the words of
// a notify to memory that they share.
#include <memory>
#include <string_view>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/notify.h"
#include "acl/share/share_call.h"
#include "acl/share/shared_object.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr aclError kBadValue = ACL_ERROR_RT_PARAM_INVALID;

std::shared_ptr<Notify> FindFlag(std::string_view function, aclrtNotify notify,
                                 aclError* error) {
  if (notify == nullptr) {
    *error = FailNull(function, "notify");
    return nullptr;
  }
  auto found = Find<Notify>(notify);
  if (found != nullptr && found->family() == NotifyFamily::kFlag) return found;
  *error = FailValue(kBadValue, function, "notify", Str("{}", notify),
                     found != nullptr
                         ? "one of aclrtCreateNotify"
                         : ExpectedInsteadOf(HandleKind::kNotify, notify));
  return nullptr;
}

bool IsOwn(const std::shared_ptr<SharedObject>& shared) {
  return shared != nullptr &&
         SharedObject::FindOwn(shared->number()) != nullptr;
}

aclError GetExportKey(aclrtNotify notify, char* key, size_t length,
                      uint64_t flags) {
  constexpr std::string_view kName = "aclrtNotifyGetExportKey";
  aclError error = ACL_SUCCESS;
  if (key == nullptr) return FailNull(kName, "key");
  const auto found = FindFlag(kName, notify, &error);
  if (found == nullptr) return error;
  if (flags != ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT &&
      flags != ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
    return FailValue(kBadValue, kName, "flags", Str("{}", flags), "0 or 2");
  }
  error = CheckNameBuffer(kName, length);
  if (error != ACL_SUCCESS) return error;
  std::shared_ptr<SharedObject> shared = found->shared();
  if (shared == nullptr) {
    RemoveShareLeftovers();
    shared = SharedObject::Create(ShareKind::kNotify);
    if (shared == nullptr) return FailToShare(kName);
    shared = found->MoveTo(std::move(shared));
  }
  if (!shared->CanBeOpened()) {
    return FailFinalized(kName, "notify", Str("{}", notify));
  }
  // An importer hands on the exporter's key, and cannot open it to others.
  if (flags != 0 && IsOwn(shared)) shared->AllowAll();
  WriteName(shared->number(), key);
  return ACL_SUCCESS;
}

aclError SetImportPid(aclrtNotify notify, const int32_t* pids, size_t count) {
  constexpr std::string_view kName = "aclrtNotifySetImportPid";
  aclError error = ACL_SUCCESS;
  if (pids == nullptr) return FailNull(kName, "pid");
  const auto found = FindFlag(kName, notify, &error);
  if (found == nullptr) return error;
  if (count == 0) return FailValue(kBadValue, kName, "num", "0", "more than 0");
  const auto shared = found->shared();
  if (shared != nullptr && !shared->CanBeOpened()) {
    return FailFinalized(kName, "notify", Str("{}", notify));
  }
  if (!IsOwn(shared)) {
    return FailValue(kBadValue, kName, "notify", Str("{}", notify),
                     "a notify that this process has exported");
  }
  return AllowProcesses(kName, *shared, pids, count);
}

aclError ImportNotifyByKey(aclrtNotify* notify, const char* key,
                           uint64_t flags) {
  constexpr std::string_view kName = "aclrtNotifyImportByKey";
  if (notify == nullptr) return FailNull(kName, "notify");
  if (key == nullptr) return FailNull(kName, "key");
  if (flags > 3) {
    return FailValue(kBadValue, kName, "flags", Str("{}", flags), "0 to 3");
  }
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(kName);
  std::shared_ptr<SharedObject> shared;
  const ShareOpening opening =
      SharedObject::Open(NumberOf(key), ShareKind::kNotify, &shared);
  if (opening != ShareOpening::kOpened) {
    return FailToOpen(opening, kName, "key", Shown(key),
                      ACL_ERROR_RT_DRV_INTERNAL_ERROR);
  }
  const auto made =
      Notify::Create(context->device(), NotifyFamily::kFlag, std::move(shared));
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, Title::kRuntime,
                Str("{} failed because device {} has no notifies left.", kName,
                    context->device()));
  }
  *notify = made->handle();
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtNotifyGetExportKey(aclrtNotify notify, char* key, size_t len,
                                 uint64_t flags) {
  return acl::GuardRuntime(
      [&] { return acl::GetExportKey(notify, key, len, flags); });
}

aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t* pid, size_t num) {
  return acl::GuardRuntime([&] { return acl::SetImportPid(notify, pid, num); });
}

aclError aclrtNotifyImportByKey(aclrtNotify* notify, const char* key,
                                uint64_t flags) {
  return acl::GuardRuntime(
      [&] { return acl::ImportNotifyByKey(notify, key, flags); });
}

}  // extern "C"
