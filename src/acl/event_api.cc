// SPDX-License-Identifier: Apache-2.0
// The event functions of the C API.
#include <algorithm>
#include <string_view>

#include "acl/context.h"
#include "acl/device_fault.h"
#include "acl/error.h"
#include "acl/event.h"
#include "acl/share/share_call.h"
#include "acl/share/shared_event.h"
#include "acl/stream.h"
#include "base/tsan.h"

namespace flashacl::acl {
namespace {

// What an event is for, in any combination. 0x4 has no name, and no effect.
constexpr uint32_t kUses = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS |
                           0x4U | ACL_EVENT_TIME_LINE;

// Either some uses, or one of the special kinds alone, which differ by family.
bool AreFlags(EventFamily family, uint32_t flags) {
  if (flags != 0 && (flags & ~kUses) == 0) return true;
  return family == EventFamily::kEx ? flags == ACL_EVENT_IPC
                                    : flags == ACL_EVENT_DEVICE_USE_ONLY ||
                                          flags == ACL_EVENT_EXTERNAL;
}

// Null is 100000, anything else that is no live event 107000.
std::shared_ptr<Event> FindEvent(aclrtEvent event, std::string_view function,
                                 std::string_view parameter, aclError* error) {
  if (event == nullptr) {
    *error = FailNull(function, parameter);
    return nullptr;
  }
  std::shared_ptr<Event> found = Find<Event>(event);
  if (found == nullptr) {
    *error = FailStale(HandleKind::kEvent, function, parameter, event);
  }
  return found;
}

aclError CreateEvent(std::string_view function, aclrtEvent* event,
                     EventFamily family, uint32_t flags) {
  if (event == nullptr) return FailNull(function, "event");
  if (!AreFlags(family, flags)) {
    return FailValue(
        ACL_ERROR_RT_PARAM_INVALID, function, "flag", Str("{:#x}", flags),
        family == EventFamily::kEx
            ? "ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS and "
              "ACL_EVENT_TIME_LINE combined, or ACL_EVENT_IPC alone"
            : "ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS and "
              "ACL_EVENT_TIME_LINE combined, or ACL_EVENT_DEVICE_USE_ONLY or "
              "ACL_EVENT_EXTERNAL alone");
  }
  const bool shared = flags == ACL_EVENT_IPC;
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(function);
  std::shared_ptr<SharedObject> object;
  if (shared) {
    object = SharedObject::Create(ShareKind::kEvent);
    if (object == nullptr) return FailToShare(function);
    object->AllowAll();
  }
  const auto made = Event::Create(
      context->device(), family, flags,
      shared ? std::make_shared<SharedEvent>(std::move(object)) : nullptr);
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, Title::kRuntime,
                Str("{} failed because device {} has no events left.", function,
                    context->device()));
  }
  *event = made->handle();
  return ACL_SUCCESS;
}

aclError OnStream(std::string_view function, aclrtEvent event,
                  aclrtStream stream,
                  aclError (Event::*call)(Stream&, std::string_view)) {
  aclError error = ACL_SUCCESS;
  const auto found = FindEvent(event, function, "event", &error);
  if (found == nullptr) return error;
  const auto at = FindStream(stream, function, &error);
  if (at == nullptr) return error;
  return (found.get()->*call)(*at, function);
}

// Whether the flag of a record or a wait asks for a node of a graph that acts
// on the event of the world outside; only a captured stream takes one.
aclError CheckFlag(std::string_view function, aclrtStream stream, uint32_t flag,
                   bool* external) {
  *external = flag == ACL_EVENT_WAIT_EXTERNAL;
  if (flag == 0) return ACL_SUCCESS;
  if (!*external) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "flag",
                     Str("{}", flag), "0 or 1 (external)");
  }
  aclError error = ACL_SUCCESS;
  const auto at = FindStream(stream, function, &error);
  if (at == nullptr || at->capturing()) return error;
  return Fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, Title::kCallSequence,
              Str("{} failed because flag 1 (external) is for streams that are "
                  "being captured, and stream {} is not.",
                  function, at->id()));
}

// 0, or 107028: the last record is one in a capture that is under way.
aclError RequireNotCaptured(const Event& event, std::string_view function) {
  if (event.captured() == nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_EVENT_CAPTURED, Title::kCallSequence,
              Str("{} failed because event {} is recorded in a capture that "
                  "has not ended.",
                  function, event.id()));
}

aclError WaitForEvent(std::string_view function, aclrtStream stream,
                      aclrtEvent event, int64_t seconds,
                      bool external = false) {
  aclError error = ACL_SUCCESS;
  const auto found = FindEvent(event, function, "event", &error);
  if (found == nullptr) return error;
  const auto at = FindStream(stream, function, &error);
  if (at == nullptr) return error;
  if (seconds < 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "timeout",
                     Str("{}", seconds), "0 or more seconds");
  }
  return external ? found->WaitAtReplay(*at, seconds, function)
                  : found->WaitOn(*at, seconds, function);
}

aclError ReportOnce(const std::shared_ptr<StreamFailure>& failed) {
  if (failed == nullptr || failed->reported.exchange(true)) return ACL_SUCCESS;
  return Fail(failed);
}

aclError FailLate(std::string_view function, const Event& event, int32_t ms) {
  return Fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, Title::kTimeout,
              Str("{} failed because event {} did not come within {} ms.",
                  function, event.id(), ms));
}

aclError SynchronizeShared(std::string_view function, const Event& event,
                           SharedEvent& shared, int32_t ms) {
  const uint64_t last = shared.last();
  if (shared.IsDone(last)) {
    LearnAll();
    return ACL_SUCCESS;
  }
  ReleaseStreams();
  switch (shared.Wait(last, DeadlineIn(ms))) {
    case SharedEvent::Ended::kDone:
      LearnAll();
      return DeviceIsAborted(event.device())
                 ? FailAborted(function, event.device())
                 : ACL_SUCCESS;
    case SharedEvent::Ended::kAlone:
      return shared.FailAlone(event.id(), function);
    case SharedEvent::Ended::kGivenUp:
      break;
  }
  return FailLate(function, event, ms);
}

aclError SynchronizeEvent(std::string_view function, aclrtEvent event,
                          int32_t ms) {
  aclError error = ACL_SUCCESS;
  const auto found = FindEvent(event, function, "event", &error);
  if (found == nullptr) return error;
  if (ms == 0 || ms < -1) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "timeout",
                     Str("{}", ms), "-1 or a positive number of milliseconds");
  }
  error = RequireNotCaptured(*found, function);
  if (error != ACL_SUCCESS) return error;
  if (found->external()) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                Str("{} failed because event {} is external: streams wait for "
                    "it, threads cannot.",
                    function, found->id()));
  }
  if (SharedEvent* const shared = found->shared()) {
    return SynchronizeShared(function, *found, *shared, ms);
  }
  const auto mark = found->mark();
  if (mark == nullptr) return ACL_SUCCESS;
  if (mark->done.open()) {
    TsanAcquire(&mark->done);
    Learn(mark->known);
    return ReportOnce(mark->failure);
  }
  ReleaseStreams();
  const profile::Span span(profile::Kind::kWait, "wait");
  if (!mark->done.Wait(DeadlineIn(ms))) {
    return FailLate(function, *found, ms);
  }
  if (DeviceIsAborted(found->device())) {
    return FailAborted(function, found->device());
  }
  Learn(mark->known);
  return ReportOnce(mark->failure);
}

// Whether the last record is done; Ex events without one count as done.
aclError Query(std::string_view function, aclrtEvent event, bool* complete) {
  aclError error = ACL_SUCCESS;
  const auto found = FindEvent(event, function, "event", &error);
  if (found == nullptr) return error;
  error = RequireNotCaptured(*found, function);
  if (error != ACL_SUCCESS) return error;
  if (found->external()) {
    *complete = found->is_set();
    return ACL_SUCCESS;
  }
  if (SharedEvent* const shared = found->shared()) {
    const uint64_t last = shared->last();
    *complete = shared->IsDone(last);
    return *complete || !shared->IsAlone(last)
               ? ACL_SUCCESS
               : shared->FailAlone(found->id(), function);
  }
  const auto mark = found->mark();
  *complete =
      mark == nullptr ? found->family() == EventFamily::kEx : mark->done.open();
  if (mark == nullptr || !*complete) return ACL_SUCCESS;
  TsanAcquire(&mark->done);
  Learn(mark->known);
  return ACL_SUCCESS;
}

// The time of the last record, if it is done and has one.
aclError TimeOf(std::string_view function, aclrtEvent event,
                std::string_view parameter, Clock::time_point* time) {
  aclError error = ACL_SUCCESS;
  const auto found = FindEvent(event, function, parameter, &error);
  if (found == nullptr) return error;
  error = RequireNotCaptured(*found, function);
  if (error != ACL_SUCCESS) return error;
  if (found->shared() != nullptr) {
    return Fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, Title::kReason,
                Str("{} failed because {} is an event between processes, which "
                    "has no time.",
                    function, parameter));
  }
  const auto mark = found->mark();
  if (mark == nullptr) {
    return Fail(
        ACL_ERROR_RT_INTERNAL_ERROR, Title::kCallSequence,
        Str("{} failed because {} was never recorded.", function, parameter));
  }
  if (!found->has_time() || !mark->done.open()) {
    return Fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, Title::kReason,
                Str("{} failed because {} {}.", function, parameter,
                    found->has_time() ? "is not complete yet"
                                      : "was made without a time line"));
  }
  *time = mark->time;
  return ACL_SUCCESS;
}

aclError ElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
  constexpr std::string_view kName = "aclrtEventElapsedTime";
  if (ms == nullptr) return FailNull(kName, "ms");
  Clock::time_point from, to;
  if (aclError e = TimeOf(kName, start, "startEvent", &from)) return e;
  if (aclError e = TimeOf(kName, end, "endEvent", &to)) return e;
  *ms = std::chrono::duration<float, std::milli>(to - from).count();
  return ACL_SUCCESS;
}

aclError Timestamp(aclrtEvent event, uint64_t* us) {
  constexpr std::string_view kName = "aclrtEventGetTimestamp";
  if (us == nullptr) return FailNull(kName, "timestamp");
  Clock::time_point time;
  if (aclError e = TimeOf(kName, event, "event", &time)) return e;
  const auto since = time.time_since_epoch();
  *us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(since).count());
  return ACL_SUCCESS;
}

aclError QueryWaits(aclrtEvent event, aclrtEventWaitStatus* status) {
  constexpr std::string_view kName = "aclrtQueryEventWaitStatus";
  if (status == nullptr) return FailNull(kName, "status");
  aclError error = ACL_SUCCESS;
  const auto found = FindEvent(event, kName, "event", &error);
  if (found == nullptr) return error;
  if (found->family() == EventFamily::kEx) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                "aclrtQueryEventWaitStatus does not support events of "
                "aclrtCreateEventExWithFlag.");
  }
  *status = found->has_pending_waits() ? ACL_EVENT_WAIT_STATUS_NOT_READY
                                       : ACL_EVENT_WAIT_STATUS_COMPLETE;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtCreateEvent(aclrtEvent* event) {
  return a::GuardRuntime([&] {
    return a::CreateEvent("aclrtCreateEvent", event, a::EventFamily::kPlain,
                          ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE |
                              ACL_EVENT_CAPTURE_STREAM_PROGRESS);
  });
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return a::GuardRuntime([&] {
    return a::CreateEvent("aclrtCreateEventWithFlag", event,
                          a::EventFamily::kWithFlag, flag);
  });
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return a::GuardRuntime([&] {
    return a::CreateEvent("aclrtCreateEventExWithFlag", event,
                          a::EventFamily::kEx, flag);
  });
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return a::GuardRuntime([&] {
    aclError error = ACL_SUCCESS;
    const auto found =
        a::FindEvent(event, "aclrtDestroyEvent", "event", &error);
    if (found == nullptr || found->Destroy()) return error;
    return a::FailStale(a::HandleKind::kEvent, "aclrtDestroyEvent", "event",
                        event);
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::OnStream("aclrtRecordEvent", event, stream, &a::Event::Record);
  });
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream,
                                  uint32_t flag) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtRecordEventWithFlag";
    bool external = false;
    aclError error = a::CheckFlag(kName, stream, flag, &external);
    if (error != ACL_SUCCESS) return error;
    return a::OnStream(
        kName, event, stream,
        external ? &a::Event::RecordAtReplay : &a::Event::Record);
  });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::OnStream("aclrtResetEvent", event, stream, &a::Event::Reset);
  });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return a::GuardRuntime([&] {
    return a::WaitForEvent("aclrtStreamWaitEvent", stream, event, 0);
  });
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event,
                                         int32_t timeout) {
  return a::GuardRuntime([&] {
    return a::WaitForEvent("aclrtStreamWaitEventWithTimeout", stream, event,
                           timeout);
  });
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event,
                                      uint32_t timeout, uint32_t flag) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtStreamWaitEventWithFlag";
    bool external = false;
    aclError error = a::CheckFlag(kName, stream, flag, &external);
    if (error != ACL_SUCCESS) return error;
    return a::WaitForEvent(kName, stream, event, timeout, external);
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event,
                               aclrtEventRecordedStatus* status) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtQueryEventStatus";
    if (status == nullptr) return a::FailNull(kName, "status");
    bool complete = false;
    if (aclError error = a::Query(kName, event, &complete)) return error;
    *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                       : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
  });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtQueryEvent";
    if (status == nullptr) return a::FailNull(kName, "status");
    bool complete = false;
    if (aclError error = a::Query(kName, event, &complete)) return error;
    *status = complete ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return ACL_SUCCESS;
  });
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event,
                                   aclrtEventWaitStatus* status) {
  return a::GuardRuntime([&] { return a::QueryWaits(event, status); });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return a::GuardRuntime(
      [&] { return a::SynchronizeEvent("aclrtSynchronizeEvent", event, -1); });
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return a::GuardRuntime([&] {
    return a::SynchronizeEvent("aclrtSynchronizeEventWithTimeout", event,
                               timeout);
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent,
                               aclrtEvent endEvent) {
  return a::GuardRuntime(
      [&] { return a::ElapsedTime(ms, startEvent, endEvent); });
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  return a::GuardRuntime([&] { return a::Timestamp(event, timestamp); });
}

aclError aclrtGetEventId(aclrtEvent event, uint32_t* eventId) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtGetEventId";
    if (eventId == nullptr) return a::FailNull(kName, "eventId");
    aclError error = ACL_SUCCESS;
    const auto found = a::FindEvent(event, kName, "event", &error);
    if (found == nullptr) return error;
    *eventId = found->id();
    return ACL_SUCCESS;
  });
}

aclError aclrtGetEventAvailNum(uint32_t* eventCount) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtGetEventAvailNum";
    if (eventCount == nullptr) return a::FailNull(kName, "eventCount");
    const auto context = a::CurrentContext();
    if (context == nullptr) return a::RequireContext(kName);
    *eventCount = a::AvailableEvents(context->device());
    return ACL_SUCCESS;
  });
}

}  // extern "C"
