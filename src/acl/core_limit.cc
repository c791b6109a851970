// SPDX-License-Identifier: Apache-2.0
// How many cores programs want operators to use: of a device, of a stream, and
// what of that holds for a thread. The numbers are kept and answered; how we
// spread work is FLASHACL_NUM_THREADS's to say, and never changes results.
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/device.h"
#include "acl/error.h"
#include "acl/hardware.h"
#include "acl/raw_enum.h"
#include "acl/stream.h"
#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

constexpr size_t kTypes = 2;  // of aclrtDevResLimitType
constexpr std::array<uint32_t, kTypes> kHardware = {kCubeCores, kVectorCores};

// 0: not set.
struct DeviceLimits {
  ProcessMutex mutex;
  std::map<int, std::array<uint32_t, kTypes>> values;
};

DeviceLimits& TheLimits() {
  static constinit MadeOnce<DeviceLimits> limits;
  return *limits;
}

// The stream that this thread uses the limits of, by its handle: it may be
// destroyed meanwhile.
thread_local const void* used_stream = nullptr;

aclError CheckType(std::string_view function, int type) {
  if (0 <= type && static_cast<size_t>(type) < kTypes) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "type",
                   std::to_string(type), "0 (cube) or 1 (vector)");
}

aclError CheckLimit(std::string_view function, int type, uint32_t value) {
  const aclError error = CheckType(function, type);
  if (error != 0) return error;
  const uint32_t most = kHardware[static_cast<size_t>(type)];
  if (1 <= value && value <= most) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "value",
                   std::to_string(value), "1 to " + std::to_string(most));
}

uint32_t DeviceLimit(int device, size_t type) {
  DeviceLimits& limits = TheLimits();
  std::lock_guard lock(limits.mutex);
  const auto found = limits.values.find(device);
  const uint32_t set = found == limits.values.end() ? 0 : found->second[type];
  return set != 0 ? set : kHardware[type];
}

uint32_t StreamLimit(const Stream& stream, size_t type) {
  const uint32_t set = stream.attributes.limits[type];
  return set != 0 ? set : DeviceLimit(stream.device(), type);
}

aclError SetDevice(int32_t device, int type, uint32_t value) {
  constexpr std::string_view kFunction = "aclrtSetDeviceResLimit";
  aclError error = RequireDevice(kFunction, device);
  if (error != 0) return error;
  error = CheckLimit(kFunction, type, value);
  if (error != 0) return error;
  DeviceLimits& limits = TheLimits();
  std::lock_guard lock(limits.mutex);
  limits.values[device][static_cast<size_t>(type)] = value;
  return ACL_SUCCESS;
}

aclError GetDevice(int32_t device, int type, uint32_t* value) {
  constexpr std::string_view kFunction = "aclrtGetDeviceResLimit";
  if (value == nullptr) return FailNull(kFunction, "value");
  aclError error = RequireDevice(kFunction, device);
  if (error != 0) return error;
  error = CheckType(kFunction, type);
  if (error != 0) return error;
  *value = DeviceLimit(device, static_cast<size_t>(type));
  return ACL_SUCCESS;
}

aclError ResetDevice(int32_t device) {
  const aclError error = RequireDevice("aclrtResetDeviceResLimit", device);
  if (error != 0) return error;
  DeviceLimits& limits = TheLimits();
  std::lock_guard lock(limits.mutex);
  limits.values.erase(device);
  return ACL_SUCCESS;
}

aclError SetStream(aclrtStream handle, int type, uint32_t value) {
  constexpr std::string_view kFunction = "aclrtSetStreamResLimit";
  aclError error = CheckLimit(kFunction, type, value);
  if (error != 0) return error;
  const std::shared_ptr<Stream> stream = FindStream(handle, kFunction, &error);
  if (stream == nullptr) return error;
  stream->attributes.limits[type] = value;
  return ACL_SUCCESS;
}

aclError GetStream(aclrtStream handle, int type, uint32_t* value) {
  constexpr std::string_view kFunction = "aclrtGetStreamResLimit";
  if (value == nullptr) return FailNull(kFunction, "value");
  aclError error = CheckType(kFunction, type);
  if (error != 0) return error;
  const std::shared_ptr<Stream> stream = FindStream(handle, kFunction, &error);
  if (stream == nullptr) return error;
  *value = StreamLimit(*stream, static_cast<size_t>(type));
  return ACL_SUCCESS;
}

aclError ResetStream(aclrtStream handle) {
  aclError error = ACL_SUCCESS;
  const std::shared_ptr<Stream> stream =
      FindStream(handle, "aclrtResetStreamResLimit", &error);
  if (stream == nullptr) return error;
  for (auto& limit : stream->attributes.limits) limit = 0;
  return ACL_SUCCESS;
}

aclError UseStream(aclrtStream handle, bool use) {
  aclError error = ACL_SUCCESS;
  const std::shared_ptr<Stream> stream =
      FindStream(handle,
                 use ? "aclrtUseStreamResInCurrentThread"
                     : "aclrtUnuseStreamResInCurrentThread",
                 &error);
  if (stream == nullptr) return error;
  if (use) {
    used_stream = stream->handle();
  } else if (used_stream == stream->handle()) {
    used_stream = nullptr;
  }
  return ACL_SUCCESS;
}

aclError GetInThread(int type, uint32_t* value) {
  constexpr std::string_view kFunction = "aclrtGetResInCurrentThread";
  if (value == nullptr) return FailNull(kFunction, "value");
  const aclError error = CheckType(kFunction, type);
  if (error != 0) return error;
  const size_t which = static_cast<size_t>(type);
  if (const auto stream = Find<Stream>(used_stream)) {
    *value = StreamLimit(*stream, which);
  } else if (const std::shared_ptr<Context> context = CurrentContext()) {
    *value = DeviceLimit(context->device(), which);
  } else {
    *value = kHardware[which];
  }
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type,
                                uint32_t value) {
  return acl::GuardRuntime(
      [&] { return acl::SetDevice(deviceId, acl::Raw(type), value); });
}

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type,
                                uint32_t* value) {
  return acl::GuardRuntime(
      [&] { return acl::GetDevice(deviceId, acl::Raw(type), value); });
}

aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  return acl::GuardRuntime([&] { return acl::ResetDevice(deviceId); });
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                uint32_t value) {
  return acl::GuardRuntime(
      [&] { return acl::SetStream(stream, acl::Raw(type), value); });
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                uint32_t* value) {
  return acl::GuardRuntime(
      [&] { return acl::GetStream(stream, acl::Raw(type), value); });
}

aclError aclrtResetStreamResLimit(aclrtStream stream) {
  return acl::GuardRuntime([&] { return acl::ResetStream(stream); });
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  return acl::GuardRuntime([&] { return acl::UseStream(stream, true); });
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
  return acl::GuardRuntime([&] { return acl::UseStream(stream, false); });
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type,
                                    uint32_t* value) {
  return acl::GuardRuntime(
      [&] { return acl::GetInThread(acl::Raw(type), value); });
}

}  // extern "C"
