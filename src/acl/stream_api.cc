// SPDX-License-Identifier: Apache-2.0
// The stream functions of the C API.
#include <algorithm>
#include <atomic>
#include <limits>
#include <string_view>

#include "acl/context.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

constexpr uint32_t kMinPriority = 7;
constexpr uint32_t kNotOffered =
    ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;

aclError CreateStream(std::string_view function, aclrtStream* stream,
                      uint32_t priority, uint32_t flags) {
  if (stream == nullptr) return FailNull(function, "stream");
  if ((flags & kNotOffered) != 0) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                Str("{} failed because streams with flag {:#x} are not "
                    "supported.",
                    function, flags));
  }
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(function);
  const auto made = context->CreateStream(flags);
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, Title::kRuntime,
                Str("{} failed because device {} has no streams left.",
                    function, context->device()));
  }
  made->attributes.priority = std::min(priority, kMinPriority);
  *stream = made->handle();
  return ACL_SUCCESS;
}

aclError DestroyStream(std::string_view function, aclrtStream stream,
                       bool force) {
  if (stream == nullptr) return FailNull(function, "stream");
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  if (found->is_default()) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kReason,
                Str("{} failed because a default stream ends with its "
                    "context only.",
                    function));
  }
  error = RequireNotCapturing(*found, function);
  if (error == ACL_SUCCESS) error = RequireNotBound(*found, function);
  if (error != ACL_SUCCESS) return error;
  if (const auto context = found->context()) context->Forget(found.get());
  if (found->Destroy(force)) return ACL_SUCCESS;
  return FailStale(HandleKind::kStream, function, "stream", stream);
}

aclError StopStream(aclrtStream stream) {
  constexpr std::string_view kName = "aclrtStreamStop";
  if (stream == nullptr) return FailNull(kName, "stream");
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, kName, &error);
  if (found == nullptr) return error;
  if (found->is_default()) {
    return Fail(ACL_ERROR_INVALID_PARAM, Title::kReason,
                "aclrtStreamStop failed because it is not for default "
                "streams.");
  }
  error = RequireNotBound(*found, kName);
  if (error != ACL_SUCCESS) return error;
  found->Stop();
  return ACL_SUCCESS;
}

aclError SynchronizeStream(std::string_view function, aclrtStream stream,
                           int32_t ms) {
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  if (ms == 0 || ms < -1) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "timeout",
                     Str("{}", ms), "-1 or a positive number of milliseconds");
  }
  error = RequireNotCapturing(*found, function);
  if (error != ACL_SUCCESS) return error;
  return found->Synchronize(DeadlineIn(ms), function);
}

// Calls `use` with the stream and `out`, which must not be null.
template <typename T, typename F>
aclError Ask(std::string_view function, aclrtStream stream,
             std::string_view parameter, T* out, F&& use) {
  if (out == nullptr) return FailNull(function, parameter);
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  return use(*found, *out);
}

aclError SetFailureMode(std::string_view function, Stream& stream,
                        uint64_t mode) {
  if (mode > ACL_STOP_ON_FAILURE) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "mode",
                     Str("{}", mode),
                     "ACL_CONTINUE_ON_FAILURE or ACL_STOP_ON_FAILURE");
  }
  stream.attributes.failure_mode = mode;
  return ACL_SUCCESS;
}

aclError SetSwitch(std::string_view function, std::atomic<uint32_t>& stored,
                   uint32_t value) {
  if (value > 1) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "flag",
                     Str("{}", value), "0 or 1");
  }
  stored = value;
  return ACL_SUCCESS;
}

aclError FailAttribute(std::string_view function, int type) {
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "stmAttrType",
                   Str("{}", static_cast<int>(type)), "an aclrtStreamAttr");
}

aclError SetAttribute(Stream& stream, int type,
                      const aclrtStreamAttrValue& value) {
  constexpr std::string_view kName = "aclrtSetStreamAttribute";
  StreamAttributes& stored = stream.attributes;
  switch (static_cast<int>(type)) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      return SetFailureMode(kName, stream, value.failureMode);
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      if (aclError error = RequireNotCapturing(stream, kName)) return error;
      return SetSwitch(kName, stored.overflow_switch, value.overflowSwitch);
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      if (aclError error = RequireNotCapturing(stream, kName)) return error;
      stored.user_tag = value.userCustomTag;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      return SetSwitch(kName, stored.cache_op_info, value.cacheOpInfoSwitch);
    case ACL_STREAM_ATTR_PRIORITY:
      stored.priority = std::min(value.streamPriority, kMinPriority);
      return ACL_SUCCESS;
    default:
      return FailAttribute(kName, type);
  }
}

aclError GetAttribute(const Stream& stream, int type,
                      aclrtStreamAttrValue* value) {
  const StreamAttributes& stored = stream.attributes;
  switch (static_cast<int>(type)) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      value->failureMode = stored.failure_mode;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      value->overflowSwitch = stored.overflow_switch;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      value->userCustomTag = stored.user_tag;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      value->cacheOpInfoSwitch = stored.cache_op_info;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY:
      value->streamPriority = stored.priority;
      return ACL_SUCCESS;
    default:
      return FailAttribute("aclrtGetStreamAttribute", type);
  }
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtCreateStream(aclrtStream* stream) {
  return a::GuardRuntime(
      [&] { return a::CreateStream("aclrtCreateStream", stream, 0, 0); });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority,
                                     uint32_t flag) {
  return a::GuardRuntime([&] {
    return a::CreateStream("aclrtCreateStreamWithConfig", stream, priority,
                           flag);
  });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return a::GuardRuntime(
      [&] { return a::DestroyStream("aclrtDestroyStream", stream, false); });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::DestroyStream("aclrtDestroyStreamForce", stream, true);
  });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::SynchronizeStream("aclrtSynchronizeStream", stream, -1);
  });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream,
                                           int32_t timeout) {
  return a::GuardRuntime([&] {
    return a::SynchronizeStream("aclrtSynchronizeStreamWithTimeout", stream,
                                timeout);
  });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return a::GuardRuntime([&] {
    return a::Ask(
        "aclrtStreamQuery", stream, "status", status,
        [](a::Stream& s, aclrtStreamStatus& out) {
          const aclError error = a::RequireNotCapturing(s, "aclrtStreamQuery");
          if (error != ACL_SUCCESS) return error;
          const bool idle = s.Idle();
          if (idle) a::ProgramWaitedFor(s.id());
          out = idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
          return ACL_SUCCESS;
        });
  });
}

aclError aclrtStreamAbort(aclrtStream stream) {
  return a::GuardRuntime([&] {
    aclError error = ACL_SUCCESS;
    const auto found = a::FindStream(stream, "aclrtStreamAbort", &error);
    if (found == nullptr) return error;
    error = a::RequireNotCapturing(*found, "aclrtStreamAbort");
    if (error == ACL_SUCCESS) {
      error = a::RequireNotBound(*found, "aclrtStreamAbort");
    }
    if (error == ACL_SUCCESS) found->Abort();
    return error;
  });
}

aclError aclrtStreamStop(aclrtStream stream) {
  return a::GuardRuntime([&] { return a::StopStream(stream); });
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  return a::GuardRuntime([&] {
    return a::Ask("aclrtStreamGetId", stream, "streamId", streamId,
                  [](a::Stream& s, int32_t& out) {
                    out = s.id();
                    return ACL_SUCCESS;
                  });
  });
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority) {
  return a::GuardRuntime([&] {
    return a::Ask("aclrtStreamGetPriority", stream, "priority", priority,
                  [](a::Stream& s, uint32_t& out) {
                    out = s.attributes.priority;
                    return ACL_SUCCESS;
                  });
  });
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags) {
  return a::GuardRuntime([&] {
    return a::Ask("aclrtStreamGetFlags", stream, "flags", flags,
                  [](a::Stream& s, uint32_t& out) {
                    out = s.flags();
                    return ACL_SUCCESS;
                  });
  });
}

aclError aclrtGetStreamAvailableNum(uint32_t* streamCount) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtGetStreamAvailableNum";
    if (streamCount == nullptr) return a::FailNull(kName, "streamCount");
    const auto context = a::CurrentContext();
    if (context == nullptr) return a::RequireContext(kName);
    *streamCount = a::AvailableStreams(context->device());
    return ACL_SUCCESS;
  });
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority,
                                           int32_t* greatestPriority) {
  return a::GuardRuntime([&]() -> aclError {
    constexpr std::string_view kName = "aclrtDeviceGetStreamPriorityRange";
    if (leastPriority == nullptr) return a::FailNull(kName, "leastPriority");
    if (greatestPriority == nullptr) {
      return a::FailNull(kName, "greatestPriority");
    }
    *leastPriority = static_cast<int32_t>(a::kMinPriority);
    *greatestPriority = 0;
    return ACL_SUCCESS;
  });
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  return a::GuardRuntime([&] {
    constexpr std::string_view kName = "aclrtSetStreamFailureMode";
    aclError error = ACL_SUCCESS;
    const auto found = a::FindStream(stream, kName, &error);
    return found == nullptr ? error : a::SetFailureMode(kName, *found, mode);
  });
}

aclError aclrtSetStreamAttribute(aclrtStream stream,
                                 aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue* value) {
  return a::GuardRuntime([&] {
    return a::Ask("aclrtSetStreamAttribute", stream, "value", value,
                  [&](a::Stream& s, aclrtStreamAttrValue& in) {
                    return a::SetAttribute(s, a::Raw(stmAttrType), in);
                  });
  });
}

aclError aclrtGetStreamAttribute(aclrtStream stream,
                                 aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue* value) {
  return a::GuardRuntime([&] {
    return a::Ask("aclrtGetStreamAttribute", stream, "value", value,
                  [&](a::Stream& s, aclrtStreamAttrValue& out) {
                    return a::GetAttribute(s, a::Raw(stmAttrType), &out);
                  });
  });
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  return a::GuardRuntime([&] {
    constexpr std::string_view kName = "aclrtSetStreamOverflowSwitch";
    aclError error = ACL_SUCCESS;
    const auto found = a::FindStream(stream, kName, &error);
    if (found == nullptr) return error;
    error = a::RequireNotCapturing(*found, kName);
    if (error != ACL_SUCCESS) return error;
    return a::SetSwitch(kName, found->attributes.overflow_switch, flag);
  });
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  return a::GuardRuntime([&] {
    return a::Ask("aclrtGetStreamOverflowSwitch", stream, "flag", flag,
                  [](a::Stream& s, uint32_t& out) {
                    out = s.attributes.overflow_switch;
                    return ACL_SUCCESS;
                  });
  });
}

}  // extern "C"
