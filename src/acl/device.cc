// SPDX-License-Identifier: Apache-2.0
#include "acl/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/capturing.h"
#include "acl/context.h"
#include "acl/device_fault.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/soc.h"
#include "acl/stream.h"
#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

struct Device {
  std::mutex mutex;
  int references = 0;                // of aclrtSetDevice
  std::shared_ptr<Context> context;  // its default context; null: not open
};

Device& At(int device) {
  static PerProcess<std::array<Device, kMaxDevices>> devices;
  return (*devices)[static_cast<size_t>(device)];
}

std::atomic<int> default_device{-1};

// The ids of "0,2,5": ascending, without blanks, up to the first bad entry.
// Unless FLASHACL_DEVICES says how many there are, any id below kMaxDevices
// exists, as all are the same CPUs.
std::vector<int> ParseVisible(const std::string& text) {
  const int limit =
      TheEnvironment().devices > 0 ? TheEnvironment().devices : kMaxDevices;
  std::vector<int> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int id = -1;
    const auto [next, error] = std::from_chars(at, end, id);
    const bool ends = next == end || *next == ',';
    if (error != std::errc() || !ends || id < 0 || id >= limit) break;
    if (!ids.empty() && id <= ids.back()) break;
    ids.push_back(id);
    if (next == end) break;
    at = next + 1;
  }
  return ids;
}

// All that exist.
std::vector<int> AllDevices() {
  std::vector<int> ids(
      static_cast<size_t>(std::max(1, TheEnvironment().devices)));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// Opens the device's default context if it is not; with the lock held.
std::shared_ptr<Context> Open(Device& device, int id) {
  if (device.context == nullptr) device.context = Context::Create(id, true);
  return device.context;
}

aclError SetDevice(int32_t id) {
  constexpr std::string_view kName = "aclrtSetDevice";
  if (aclError error = RequireSoc(kName)) return error;
  if (aclError error = RequireDevice(kName, id)) return error;
  Device& device = At(id);
  std::lock_guard lock(device.mutex);
  const std::shared_ptr<Context> context = Open(device, id);
  if (context == nullptr) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                "aclrtSetDevice failed because there are no handles left.");
  }
  ++device.references;
  EndAbort(id);
  SetCurrent(context.get());
  return ACL_SUCCESS;
}

aclError ResetDevice(std::string_view function, int32_t id, bool force) {
  if (aclError error = RequireDevice(function, id)) return error;
  Device& device = At(id);
  std::shared_ptr<Context> context;
  {
    std::lock_guard lock(device.mutex);
    if (device.references == 0) {
      return Fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, Title::kCallSequence,
                  Str("{} failed because device {} is not set or already "
                      "reset.",
                      function, id));
    }
    device.references = force ? 0 : device.references - 1;
    if (device.references > 0) return ACL_SUCCESS;
    context = std::exchange(device.context, nullptr);
  }
  // Without the lock: this waits for tasks, which may use the device.
  context->Destroy();
  ClearFaults(id);
  return ACL_SUCCESS;
}

aclError GetDevice(int32_t* device) {
  constexpr std::string_view kName = "aclrtGetDevice";
  if (device == nullptr) return FailNull(kName, "deviceId");
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(kName);
  *device = context->device();
  return ACL_SUCCESS;
}

aclError SynchronizeDevice(std::string_view function, int32_t ms) {
  if (ms == 0 || ms < -1) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "timeout",
                     Str("{}", ms), "-1 or a positive number of milliseconds");
  }
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(function);
  if (aclError error = RequireNoCaptureIn(*context, function)) return error;
  return SynchronizeContext(*context, DeadlineIn(ms), function);
}

aclError GetPrimaryState(int32_t id, uint32_t* flags, int32_t* active) {
  constexpr std::string_view kName = "aclrtGetPrimaryCtxState";
  if (active == nullptr) return FailNull(kName, "active");
  if (aclError error = RequireDevice(kName, id)) return error;
  Device& device = At(id);
  std::lock_guard lock(device.mutex);
  *active = device.context != nullptr ? 1 : 0;
  if (flags != nullptr) *flags = 0;
  return ACL_SUCCESS;
}

}  // namespace

const std::vector<int>& VisibleDevices() {
  static constinit MadeOnce<const std::vector<int>> ids;
  return ids.Get([] {
    return TheEnvironment().has_visible_devices
               ? ParseVisible(TheEnvironment().visible_devices)
               : AllDevices();
  });
}

int DeviceCount() { return static_cast<int>(VisibleDevices().size()); }

aclError RequireDevice(std::string_view function, int64_t device) {
  if (0 <= device && device < DeviceCount()) return ACL_SUCCESS;
  std::string expected = Str("[0, {})", DeviceCount());
  // As many as there may be; a list of visible ones has the last word.
  if (0 <= device && device < kMaxDevices &&
      !TheEnvironment().has_visible_devices) {
    expected +=
        Str("; FLASHACL_DEVICES={} shows {} devices", device + 1, device + 1);
  }
  return FailValue(ACL_ERROR_RT_INVALID_DEVICEID, function, "deviceId",
                   Str("{}", device), expected);
}

void SetDefaultDevice(int device) { default_device.store(device); }

std::shared_ptr<Context> DefaultDeviceContext() {
  const int id = default_device.load();
  if (id < 0) return nullptr;
  Device& device = At(id);
  std::lock_guard lock(device.mutex);
  // Held like one aclrtSetDevice of the program, so that it can be reset.
  if (device.references == 0 && Open(device, id) != nullptr) {
    device.references = 1;
  }
  return device.context;
}

}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtSetDevice(int32_t deviceId) {
  return a::GuardRuntime([&] { return a::SetDevice(deviceId); });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return a::GuardRuntime(
      [&] { return a::ResetDevice("aclrtResetDevice", deviceId, false); });
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  return a::GuardRuntime(
      [&] { return a::ResetDevice("aclrtResetDeviceForce", deviceId, true); });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return a::GuardRuntime([&] { return a::GetDevice(deviceId); });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return a::GuardRuntime([&]() -> aclError {
    if (count == nullptr) return a::FailNull("aclrtGetDeviceCount", "count");
    *count = static_cast<uint32_t>(a::DeviceCount());
    return ACL_SUCCESS;
  });
}

aclError aclrtSynchronizeDevice(void) {
  return a::GuardRuntime(
      [&] { return a::SynchronizeDevice("aclrtSynchronizeDevice", -1); });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return a::GuardRuntime([&] {
    return a::SynchronizeDevice("aclrtSynchronizeDeviceWithTimeout", timeout);
  });
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags,
                                 int32_t* active) {
  return a::GuardRuntime(
      [&] { return a::GetPrimaryState(deviceId, flags, active); });
}

}  // extern "C"
