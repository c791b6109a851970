// SPDX-License-Identifier: Apache-2.0
// What the system is: run mode, chip, capabilities, facts about a device.
#include <stdlib.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "acl/acl_rt.h"
#include "acl/device.h"
#include "acl/error.h"
#include "acl/hardware.h"
#include "acl/memory.h"
#include "acl/raw_enum.h"
#include "acl/soc.h"

namespace flashacl::acl {
namespace {

aclError GetRunMode(aclrtRunMode* mode) {
  if (mode == nullptr) return FailNull("aclrtGetRunMode", "runMode");
  *mode = ACL_HOST;
  return ACL_SUCCESS;
}

aclError GetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
  constexpr std::string_view kFunction = "aclrtGetVersion";
  if (major == nullptr) return FailNull(kFunction, "majorVersion");
  if (minor == nullptr) return FailNull(kFunction, "minorVersion");
  if (patch == nullptr) return FailNull(kFunction, "patchVersion");
  *major = ACL_MAJOR_VERSION;
  *minor = ACL_MINOR_VERSION;
  *patch = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

aclError GetAttributeList(const aclCannAttr** list, size_t* count) {
  static constexpr aclCannAttr kAll[] = {
      ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};
  constexpr std::string_view kFunction = "aclGetCannAttributeList";
  if (list == nullptr) return FailNull(kFunction, "attrList");
  if (count == nullptr) return FailNull(kFunction, "num");
  *list = kAll;
  *count = std::size(kAll);
  return ACL_SUCCESS;
}

aclError GetAttribute(int attribute, int32_t* value) {
  constexpr std::string_view kFunction = "aclGetCannAttribute";
  if (value == nullptr) return FailNull(kFunction, "value");
  if (attribute < ACL_CANN_ATTR_INF_NAN ||
      attribute > ACL_CANN_ATTR_JIT_COMPILE) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "cannAttr",
                     std::to_string(attribute), "0 to 2");
  }
  *value = 1;
  return ACL_SUCCESS;
}

aclError GetCapability(uint32_t device, int info, int64_t* value) {
  constexpr std::string_view kFunction = "aclGetDeviceCapability";
  if (value == nullptr) return FailNull(kFunction, "value");
  if (device >= static_cast<uint32_t>(DeviceCount())) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "deviceId",
                     std::to_string(device),
                     "less than " + std::to_string(DeviceCount()));
  }
  switch (info) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
      *value = kCubeCores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      *value = kVectorCores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE:
      *value = kL2Bytes;
      return ACL_SUCCESS;
    default:
      return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "deviceInfo",
                       std::to_string(info), "0 to 2");
  }
}

// Nothing if nobody knows the attribute.
std::optional<int64_t> Fact(int attribute, uint32_t device) {
  switch (attribute) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      return kAiCpuCores;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      return kCubeCores;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      return kVectorCores;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      return static_cast<int64_t>(DeviceBytes());
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      return kL2Bytes;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      return VisibleDevices()[device];
    case ACL_DEV_ATTR_SMP_ID:
    case ACL_DEV_ATTR_IS_VIRTUAL:
    case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
    case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
    case ACL_DEV_ATTR_SUPER_POD_ID:
    case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:
    case ACL_DEV_ATTR_MAINBOARD_ID:
    case ACL_DEV_ATTR_HD_CONNECT_TYPE:
      return 0;
    case ACL_DEV_ATTR_DEVICE_FORM_FACTOR:
      return kFormFactor;
    case ACL_DEV_ATTR_NPU_ARCH:
      return kNpuArch;
    default:
      break;
  }
  constexpr int kLastOfThreads = 212;  // warps, grids and blocks: none here
  if (attribute >= ACL_DEV_ATTR_WARP_SIZE && attribute <= kLastOfThreads) {
    return 0;
  }
  return std::nullopt;
}

aclError GetDeviceInfo(uint32_t device, int attribute, int64_t* value) {
  constexpr std::string_view kFunction = "aclrtGetDeviceInfo";
  if (value == nullptr) return FailNull(kFunction, "value");
  const aclError error = RequireDevice(kFunction, device);
  if (error != 0) return error;
  const std::optional<int64_t> fact = Fact(attribute, device);
  if (!fact.has_value()) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kFunction, "attr",
                     std::to_string(attribute), "one of ACL_DEV_ATTR_*");
  }
  *value = *fact;
  return ACL_SUCCESS;
}

// The cores of all kinds are this machine's, so its load is theirs.
aclError GetUtilization(int32_t device, aclrtUtilizationInfo* info) {
  constexpr std::string_view kFunction = "aclrtGetDeviceUtilizationRate";
  if (info == nullptr) return FailNull(kFunction, "utilizationInfo");
  const aclError error = RequireDevice(kFunction, device);
  if (error != 0) return error;
  double load = 0;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  if (getloadavg(&load, 1) != 1) load = 0;
  const int32_t percent =
      static_cast<int32_t>(std::clamp(100.0 * load / cores, 0.0, 100.0));
  info->cubeUtilization = percent;
  info->vectorUtilization = percent;
  info->aicpuUtilization = percent;
  info->memoryUtilization = -1;
  return ACL_SUCCESS;
}

aclError QueryStatus(int32_t device, aclrtDeviceStatus* status) {
  constexpr std::string_view kFunction = "aclrtQueryDeviceStatus";
  if (status == nullptr) return FailNull(kFunction, "deviceStatus");
  const aclError error = RequireDevice(kFunction, device);
  if (error != 0) return error;
  *status = ACL_RT_DEVICE_STATUS_NORMAL;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

const char* aclrtGetSocName(void) { return acl::SocName(); }

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return acl::GuardRuntime([&] { return acl::GetRunMode(runMode); });
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion,
                         int32_t* patchVersion) {
  return acl::GuardRuntime([&] {
    return acl::GetVersion(majorVersion, minorVersion, patchVersion);
  });
}

aclError aclGetCannAttributeList(const aclCannAttr** attrList, size_t* num) {
  return acl::GuardRuntime(
      [&] { return acl::GetAttributeList(attrList, num); });
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  return acl::GuardRuntime(
      [&] { return acl::GetAttribute(acl::Raw(cannAttr), value); });
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo,
                                int64_t* value) {
  return acl::GuardRuntime([&] {
    return acl::GetCapability(deviceId, acl::Raw(deviceInfo), value);
  });
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr,
                            int64_t* value) {
  return acl::GuardRuntime(
      [&] { return acl::GetDeviceInfo(deviceId, acl::Raw(attr), value); });
}

aclError aclrtGetDeviceUtilizationRate(int32_t deviceId,
                                       aclrtUtilizationInfo* utilizationInfo) {
  return acl::GuardRuntime(
      [&] { return acl::GetUtilization(deviceId, utilizationInfo); });
}

aclError aclrtQueryDeviceStatus(int32_t deviceId,
                                aclrtDeviceStatus* deviceStatus) {
  return acl::GuardRuntime(
      [&] { return acl::QueryStatus(deviceId, deviceStatus); });
}

}  // extern "C"
