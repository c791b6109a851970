// SPDX-License-Identifier: Apache-2.0
// aclrtGetMemUsageInfo: who has how much of the device's memory.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/device.h"
#include "acl/error.h"
#include "acl/memory.h"

namespace flashacl::acl {
namespace {

aclrtMemUsageInfo Usage(std::string_view name, size_t now, size_t peak) {
  aclrtMemUsageInfo info{};
  std::memcpy(info.name, name.data(), name.size());
  info.curMemSize = now;
  info.memPeakSize = peak;
  return info;
}

aclError GetUsage(int32_t device, aclrtMemUsageInfo* info, size_t room,
                  size_t* count) {
  constexpr std::string_view kName = "aclrtGetMemUsageInfo";
  if (info == nullptr) return FailNull(kName, "memUsageInfo");
  if (count == nullptr) return FailNull(kName, "outputNum");
  if (room == 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "inputNum", "0",
                     "1 or more entries");
  }
  if (const aclError error = RequireDevice(kName, device)) return error;
  // The largest first: nothing of the runtime's own is in device memory.
  const std::array<aclrtMemUsageInfo, 2> all = {
      Usage("app", TakenDeviceBytes(), PeakDeviceBytes()),
      Usage("runtime", 0, 0)};
  *count = std::min(room, all.size());
  std::copy_n(all.begin(), *count, info);
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

extern "C" {

aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo* memUsageInfo,
                              size_t inputNum, size_t* outputNum) {
  namespace a = flashacl::acl;
  return a::GuardRuntime(
      [&] { return a::GetUsage(deviceId, memUsageInfo, inputNum, outputNum); });
}

}  // extern "C"
