// SPDX-License-Identifier: Apache-2.0
// aclrtIpc*EventHandle: how events between processes get from one to the other.
#include <memory>
#include <string_view>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/event.h"
#include "acl/share/share_call.h"
#include "acl/share/shared_event.h"
#include "acl/share/shared_object.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

aclError GetHandle(aclrtEvent event, aclrtIpcEventHandle* handle) {
  constexpr std::string_view kName = "aclrtIpcGetEventHandle";
  if (event == nullptr) return FailNull(kName, "event");
  if (handle == nullptr) return FailNull(kName, "handle");
  const auto found = Find<Event>(event);
  if (found == nullptr) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "event",
                     Str("{}", event),
                     ExpectedInsteadOf(HandleKind::kEvent, event));
  }
  if (found->shared() == nullptr) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "event",
                     Str("{}", event),
                     "an event of aclrtCreateEventExWithFlag with "
                     "ACL_EVENT_IPC");
  }
  if (!found->shared()->object().CanBeOpened()) {
    return FailFinalized(kName, "event", Str("{}", event));
  }
  RemoveShareLeftovers();
  *handle = {};
  WriteName(found->shared()->object().number(), handle->reserved);
  return ACL_SUCCESS;
}

aclError OpenHandle(const aclrtIpcEventHandle& handle, aclrtEvent* event) {
  constexpr std::string_view kName = "aclrtIpcOpenEventHandle";
  if (event == nullptr) return FailNull(kName, "event");
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(kName);
  const uint64_t number = NumberOf(handle.reserved);
  if (number == 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "handle",
                     Shown(handle.reserved),
                     "what aclrtIpcGetEventHandle returned");
  }
  std::shared_ptr<SharedObject> object;
  const ShareOpening opening =
      SharedObject::Open(number, ShareKind::kEvent, &object);
  if (opening != ShareOpening::kOpened) {
    return FailToOpen(opening, kName, "handle", Shown(handle.reserved),
                      ACL_ERROR_RT_IPC_ERROR);
  }
  const auto made =
      Event::Create(context->device(), EventFamily::kEx, ACL_EVENT_IPC,
                    std::make_shared<SharedEvent>(std::move(object)));
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, Title::kRuntime,
                Str("{} failed because device {} has no events left.", kName,
                    context->device()));
  }
  *event = made->handle();
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle) {
  return acl::GuardRuntime([&] { return acl::GetHandle(event, handle); });
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle,
                                 aclrtEvent* event) {
  return acl::GuardRuntime([&] { return acl::OpenHandle(handle, event); });
}

}  // extern "C"
