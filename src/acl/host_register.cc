// SPDX-License-Identifier: Apache-2.0
// aclrtHostRegister and its relatives: a table of ranges that count as pinned.
// The device reaches them at the host's own addresses.
#include "acl/host_register.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/address_number.h"
#include "acl/error.h"
#include "acl/init.h"
#include "acl/raw_enum.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr uint32_t kKnownFlags = ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY |
                                 ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;

struct Ranges {
  ProcessWide<std::shared_mutex> mutex;
  std::map<uintptr_t, uint64_t> bytes;  // by start; they do not overlap
};

void AppendRegistered(std::string* text);

Ranges& TheRanges() {
  static constinit MadeOnce<Ranges> ranges;
  return ranges.Get([] {
    AddLeakReporter(&AppendRegistered);
    return Ranges();
  });
}

void AppendRegistered(std::string* text) {
  Ranges& ranges = TheRanges();
  std::shared_lock lock(ranges.mutex);
  if (ranges.bytes.empty()) return;
  *text += Str("{}{} registered host range{}", text->empty() ? "" : ", ",
               ranges.bytes.size(), ranges.bytes.size() == 1 ? "" : "s");
}

// The range that holds `at`, or the end. Under the mutex.
std::map<uintptr_t, uint64_t>::iterator Holding(Ranges& ranges, uintptr_t at) {
  auto next = ranges.bytes.upper_bound(at);
  if (next == ranges.bytes.begin()) return ranges.bytes.end();
  --next;
  return at - next->first < next->second ? next : ranges.bytes.end();
}

aclError Register(std::string_view function, void* pointer, uint64_t size) {
  const uintptr_t first = Number(pointer);
  if (first + size < first) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "size",
                     std::to_string(size), "a range of memory");
  }
  Ranges& ranges = TheRanges();
  std::unique_lock lock(ranges.mutex);
  const auto next = ranges.bytes.lower_bound(first);
  const bool before = Holding(ranges, first) != ranges.bytes.end();
  if (before || (next != ranges.bytes.end() && next->first < first + size)) {
    return Fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, Title::kCallSequence,
                Str("{} failed because the {} bytes at {} are, at least in "
                    "part, registered already",
                    function, size, pointer));
  }
  ranges.bytes.emplace_hint(next, first, size);
  return ACL_SUCCESS;
}

aclError FailNotRegistered(std::string_view function, const void* pointer) {
  return Fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, Title::kCallSequence,
              Str("{} failed because {} is not registered", function, pointer));
}

aclError CheckRange(std::string_view function, const void* pointer,
                    uint64_t size) {
  if (pointer == nullptr) return FailNull(function, "ptr");
  if (size > 0) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "size", "0",
                   "more than 0");
}

aclError HostRegister(void* pointer, uint64_t size, int type, void** device) {
  constexpr std::string_view kFunction = "aclrtHostRegister";
  if (const aclError error = CheckRange(kFunction, pointer, size); error != 0) {
    return error;
  }
  if (device == nullptr) return FailNull(kFunction, "devPtr");
  if (type != ACL_HOST_REGISTER_MAPPED && type != ACL_HOST_REGISTER_IOMEMORY &&
      type != ACL_HOST_REGISTER_READONLY) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kFunction, "type",
                     std::to_string(type), "0, 4 or 8");
  }
  if (const aclError error = Register(kFunction, pointer, size); error != 0) {
    return error;
  }
  *device = pointer;
  return ACL_SUCCESS;
}

aclError HostRegisterV2(void* pointer, uint64_t size, uint32_t flags) {
  constexpr std::string_view kFunction = "aclrtHostRegisterV2";
  if (const aclError error = CheckRange(kFunction, pointer, size); error != 0) {
    return error;
  }
  if (flags == 0 || (flags & ~kKnownFlags) != 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kFunction, "flag",
                     Str("{:#x}", flags), "a combination of ACL_HOST_REG_*");
  }
  return Register(kFunction, pointer, size);
}

aclError HostGetDevicePointer(void* host, void** device, uint32_t flag) {
  constexpr std::string_view kFunction = "aclrtHostGetDevicePointer";
  if (host == nullptr) return FailNull(kFunction, "pHost");
  if (device == nullptr) return FailNull(kFunction, "pDevice");
  if (flag != 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kFunction, "flag",
                     std::to_string(flag), "0");
  }
  if (!IsRegistered(host, 1)) return FailNotRegistered(kFunction, host);
  *device = host;
  return ACL_SUCCESS;
}

aclError HostUnregister(void* pointer) {
  constexpr std::string_view kFunction = "aclrtHostUnregister";
  if (pointer == nullptr) return FailNull(kFunction, "ptr");
  Ranges& ranges = TheRanges();
  std::unique_lock lock(ranges.mutex);
  if (ranges.bytes.erase(Number(pointer)) > 0) return ACL_SUCCESS;
  lock.unlock();
  return FailNotRegistered(kFunction, pointer);
}

}  // namespace

bool IsRegistered(const void* address, size_t bytes) {
  Ranges& ranges = TheRanges();
  std::shared_lock lock(ranges.mutex);
  const auto found = Holding(ranges, Number(address));
  if (found == ranges.bytes.end()) return false;
  return bytes <= found->second - (Number(address) - found->first);
}

}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type,
                           void** devPtr) {
  return acl::GuardRuntime(
      [&] { return acl::HostRegister(ptr, size, acl::Raw(type), devPtr); });
}

aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  return acl::GuardRuntime(
      [&] { return acl::HostRegisterV2(ptr, size, flag); });
}

aclError aclrtHostGetDevicePointer(void* pHost, void** pDevice, uint32_t flag) {
  return acl::GuardRuntime(
      [&] { return acl::HostGetDevicePointer(pHost, pDevice, flag); });
}

aclError aclrtHostUnregister(void* ptr) {
  return acl::GuardRuntime([&] { return acl::HostUnregister(ptr); });
}

}  // extern "C"
