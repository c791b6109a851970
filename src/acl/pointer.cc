// SPDX-License-Identifier: Apache-2.0
// Questions about memory: where a pointer points, how much is left.
#include <string>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/host_register.h"
#include "acl/memory.h"
#include "acl/raw_enum.h"

namespace flashacl::acl {
namespace {

constexpr uint32_t kSmallPageBytes = 4096;

aclError GetAttributes(const void* pointer, aclrtPtrAttributes* attributes) {
  constexpr std::string_view kFunction = "aclrtPointerGetAttributes";
  if (pointer == nullptr) return FailNull(kFunction, "ptr");
  if (attributes == nullptr) return FailNull(kFunction, "attributes");
  aclrtPtrAttributes answer = {};
  answer.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  Block block;
  if (FindBlock(pointer, &block)) {
    answer.location.type = block.device() ? ACL_MEM_LOCATION_TYPE_DEVICE
                                          : ACL_MEM_LOCATION_TYPE_HOST;
    answer.location.id = static_cast<uint32_t>(block.device_id);
    answer.pageSize =
        block.huge ? static_cast<uint32_t>(kHugePageBytes) : kSmallPageBytes;
  } else if (IsRegistered(pointer, 1)) {
    answer.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    answer.pageSize = kSmallPageBytes;
  }
  *attributes = answer;
  return ACL_SUCCESS;
}

aclError CheckMemType(void** list, uint32_t size, uint32_t type,
                      uint32_t* result, uint32_t reserve) {
  constexpr std::string_view kFunction = "aclrtCheckMemType";
  constexpr uint32_t kKnown =
      ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD;
  if (list == nullptr) return FailNull(kFunction, "addrList");
  if (result == nullptr) return FailNull(kFunction, "checkResult");
  if (size == 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "size", "0",
                     "more than 0");
  }
  if (type == 0 || (type & ~kKnown) != 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "memType",
                     std::to_string(type),
                     "a combination of ACL_RT_MEM_TYPE_*");
  }
  if (reserve != 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "reserve",
                     std::to_string(reserve), "0");
  }
  // All device memory is of the one plain kind.
  uint32_t all = (type & ACL_RT_MEM_TYPE_DEV) != 0 ? 1 : 0;
  for (uint32_t i = 0; i < size && all == 1; ++i) {
    Block block;
    if (!FindBlock(list[i], &block) || !block.device()) all = 0;
  }
  *result = all;
  return ACL_SUCCESS;
}

aclError CheckCached(std::string_view function, const void* pointer,
                     size_t size) {
  if (pointer == nullptr) return FailNull(function, "devPtr");
  if (size > 0) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "size", "0",
                   "more than 0");
}

aclError GetMemInfo(int attr, size_t* free, size_t* total) {
  constexpr std::string_view kFunction = "aclrtGetMemInfo";
  if (free == nullptr) return FailNull(kFunction, "free");
  if (total == nullptr) return FailNull(kFunction, "total");
  if (attr < ACL_DDR_MEM || attr > ACL_MEM_P2P_HUGE1G) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "attr",
                     std::to_string(attr), "0 to 17");
  }
  if (const aclError error = RequireContext(kFunction); error != 0) {
    return error;
  }
  *free = FreeDeviceBytes();
  *total = DeviceBytes();
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtPointerGetAttributes(const void* ptr,
                                   aclrtPtrAttributes* attributes) {
  return acl::GuardRuntime([&] { return acl::GetAttributes(ptr, attributes); });
}

aclError aclrtCheckMemType(void** addrList, uint32_t size, uint32_t memType,
                           uint32_t* checkResult, uint32_t reserve) {
  return acl::GuardRuntime([&] {
    return acl::CheckMemType(addrList, size, memType, checkResult, reserve);
  });
}

aclError aclrtMemFlush(void* devPtr, size_t size) {
  return acl::GuardRuntime(
      [&] { return acl::CheckCached("aclrtMemFlush", devPtr, size); });
}

aclError aclrtMemInvalidate(void* devPtr, size_t size) {
  return acl::GuardRuntime(
      [&] { return acl::CheckCached("aclrtMemInvalidate", devPtr, size); });
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return acl::GuardRuntime(
      [&] { return acl::GetMemInfo(acl::Raw(attr), free, total); });
}

}  // extern "C"
