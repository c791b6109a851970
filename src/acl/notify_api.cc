// SPDX-License-Identifier: Apache-2.0
// The notify functions of the C API.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/notify.h"
#include "acl/raw_enum.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

// Notifies say 100000 to a null handle, count notifies 107000.
aclError FailNullNotify(std::string_view function, NotifyFamily family) {
  if (family == NotifyFamily::kFlag) return FailNull(function, "notify");
  return Fail(
      ACL_ERROR_RT_PARAM_INVALID, Title::kNullPointer,
      Str("{} failed because cntNotify cannot be a NULL pointer.", function));
}

std::shared_ptr<Notify> FindNotify(const void* handle, NotifyFamily family,
                                   std::string_view function, aclError* error) {
  if (handle == nullptr) {
    *error = FailNullNotify(function, family);
    return nullptr;
  }
  std::shared_ptr<Notify> found = Find<Notify>(handle);
  if (found != nullptr && found->family() == family) return found;
  const bool flag = family == NotifyFamily::kFlag;
  *error = FailValue(ACL_ERROR_RT_PARAM_INVALID, function,
                     flag ? "notify" : "cntNotify", Str("{}", handle),
                     found == nullptr
                         ? ExpectedInsteadOf(HandleKind::kNotify, handle)
                         : Str("one of {}", flag ? "aclrtCreateNotify"
                                                 : "aclrtCntNotifyCreate"));
  return nullptr;
}

// The stream, which must be of the calling thread's context.
std::shared_ptr<Stream> FindOwnStream(aclrtStream stream,
                                      std::string_view function,
                                      aclError* error) {
  std::shared_ptr<Stream> found = FindStream(stream, function, error);
  if (found == nullptr) return nullptr;
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) {
    *error = RequireContext(function);
    return nullptr;
  }
  if (found->context() == context) return found;
  *error = Fail(ACL_ERROR_RT_STREAM_CONTEXT, Title::kStreamContext,
                Str("{} failed because stream {} is not of the calling "
                    "thread's current context. Call aclrtSetCurrentContext or "
                    "aclrtSetDevice first.",
                    function, found->id()));
  return nullptr;
}

aclError CreateNotify(std::string_view function, void** notify, uint64_t flag,
                      NotifyFamily family) {
  if (notify == nullptr) {
    return FailNull(function,
                    family == NotifyFamily::kFlag ? "notify" : "cntNotify");
  }
  if ((flag & ~uint64_t{ACL_NOTIFY_DEVICE_USE_ONLY}) != 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "flag",
                     Str("{:#x}", flag),
                     "ACL_NOTIFY_DEFAULT or ACL_NOTIFY_DEVICE_USE_ONLY");
  }
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(function);
  const auto made = Notify::Create(context->device(), family);
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, Title::kRuntime,
                Str("{} failed because device {} has no notifies left.",
                    function, context->device()));
  }
  *notify = made->handle();
  return ACL_SUCCESS;
}

aclError DestroyNotify(std::string_view function, void* notify,
                       NotifyFamily family) {
  aclError error = ACL_SUCCESS;
  const auto found = FindNotify(notify, family, function, &error);
  if (found == nullptr || found->Destroy()) return error;
  return FailStale(HandleKind::kNotify, function,
                   family == NotifyFamily::kFlag ? "notify" : "cntNotify",
                   notify);
}

aclError Change(std::string_view function, void* notify, NotifyFamily family,
                aclrtStream stream, NotifyChange change, uint32_t value) {
  aclError error = ACL_SUCCESS;
  const auto found = FindNotify(notify, family, function, &error);
  if (found == nullptr) return error;
  const auto at = FindOwnStream(stream, function, &error);
  if (at == nullptr) return error;
  return found->Change(*at, change, value, function);
}

aclError WaitForNotify(std::string_view function, void* notify,
                       NotifyFamily family, aclrtStream stream,
                       const NotifyWait& wait) {
  aclError error = ACL_SUCCESS;
  const auto found = FindNotify(notify, family, function, &error);
  if (found == nullptr) return error;
  const auto at = FindOwnStream(stream, function, &error);
  if (at == nullptr) return error;
  return found->Wait(*at, wait, function);
}

aclError GetId(std::string_view function, void* notify, NotifyFamily family,
               uint32_t* id) {
  aclError error = ACL_SUCCESS;
  const auto found = FindNotify(notify, family, function, &error);
  if (found == nullptr) return error;
  if (id == nullptr) return FailNull(function, "notifyId");
  *id = found->id();
  return ACL_SUCCESS;
}

// All or nothing.
aclError ResetBatch(aclrtNotify* notifies, size_t count) {
  constexpr std::string_view kName = "aclrtNotifyBatchReset";
  if (notifies == nullptr) return FailNull(kName, "notifies");
  if (count == 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "num", "0",
                     "1 or more notifies");
  }
  std::vector<std::shared_ptr<Notify>> all;
  for (size_t i = 0; i < count; ++i) {
    if (notifies[i] == nullptr) {
      return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kNullPointer,
                  Str("{} failed because notifies[{}] cannot be a NULL "
                      "pointer.",
                      kName, i));
    }
    aclError error = ACL_SUCCESS;
    all.push_back(FindNotify(notifies[i], NotifyFamily::kFlag, kName, &error));
    if (all.back() == nullptr) return error;
  }
  for (const auto& notify : all) notify->Reset();
  return ACL_SUCCESS;
}

aclError RecordCount(aclrtCntNotify notify, aclrtStream stream,
                     const aclrtCntNotifyRecordInfo* info) {
  constexpr std::string_view kName = "aclrtCntNotifyRecord";
  if (info == nullptr) return FailNull(kName, "info");
  const int mode = Raw(info->mode);
  if (mode < 0 || mode > ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE || mode == 3) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "info->mode",
                     Str("{}", mode), "an aclrtCntNotifyRecordMode");
  }
  return Change(kName, notify, NotifyFamily::kCount, stream,
                static_cast<NotifyChange>(mode), info->value);
}

aclError WaitCount(aclrtCntNotify notify, aclrtStream stream,
                   const aclrtCntNotifyWaitInfo* info) {
  constexpr std::string_view kName = "aclrtCntNotifyWaitWithTimeout";
  if (info == nullptr) return FailNull(kName, "info");
  const int mode = Raw(info->mode);
  if (mode < 0 || mode > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "info->mode",
                     Str("{}", mode), "an aclrtCntNotifyWaitMode");
  }
  return WaitForNotify(kName, notify, NotifyFamily::kCount, stream,
                       {static_cast<NotifyTest>(mode), info->value,
                        info->timeout, info->isClear != 0});
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtCreateNotify(aclrtNotify* notify, uint64_t flag) {
  return a::GuardRuntime([&] {
    return a::CreateNotify("aclrtCreateNotify", notify, flag,
                           a::NotifyFamily::kFlag);
  });
}

aclError aclrtDestroyNotify(aclrtNotify notify) {
  return a::GuardRuntime([&] {
    return a::DestroyNotify("aclrtDestroyNotify", notify,
                            a::NotifyFamily::kFlag);
  });
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::Change("aclrtRecordNotify", notify, a::NotifyFamily::kFlag,
                     stream, a::NotifyChange::kSet, 1);
  });
}

aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream,
                                 uint32_t timeout) {
  return a::GuardRuntime([&] {
    return a::WaitForNotify("aclrtWaitAndResetNotify", notify,
                            a::NotifyFamily::kFlag, stream,
                            {a::NotifyTest::kEqual, 1, timeout, true});
  });
}

aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t* notifyId) {
  return a::GuardRuntime([&] {
    return a::GetId("aclrtGetNotifyId", notify, a::NotifyFamily::kFlag,
                    notifyId);
  });
}

aclError aclrtNotifyBatchReset(aclrtNotify* notifies, size_t num) {
  return a::GuardRuntime([&] { return a::ResetBatch(notifies, num); });
}

aclError aclrtCntNotifyCreate(aclrtCntNotify* cntNotify, uint64_t flag) {
  return a::GuardRuntime([&] {
    return a::CreateNotify("aclrtCntNotifyCreate", cntNotify, flag,
                           a::NotifyFamily::kCount);
  });
}

aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify) {
  return a::GuardRuntime([&] {
    return a::DestroyNotify("aclrtCntNotifyDestroy", cntNotify,
                            a::NotifyFamily::kCount);
  });
}

aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                              aclrtCntNotifyRecordInfo* info) {
  return a::GuardRuntime(
      [&] { return a::RecordCount(cntNotify, stream, info); });
}

aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify,
                                       aclrtStream stream,
                                       aclrtCntNotifyWaitInfo* info) {
  return a::GuardRuntime([&] { return a::WaitCount(cntNotify, stream, info); });
}

aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::Change("aclrtCntNotifyReset", cntNotify, a::NotifyFamily::kCount,
                     stream, a::NotifyChange::kSet, 0);
  });
}

aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t* notifyId) {
  return a::GuardRuntime([&] {
    return a::GetId("aclrtCntNotifyGetId", cntNotify, a::NotifyFamily::kCount,
                    notifyId);
  });
}

}  // extern "C"
