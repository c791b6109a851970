// SPDX-License-Identifier: Apache-2.0
// What tells a device, and a process that uses it, from others.
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/device.h"
#include "acl/error.h"
#include "base/random.h"

namespace flashacl::acl {
namespace {

// The machine's id, or its name where it has none.
std::string Machine() {
  char text[256] = {};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen("/etc/machine-id", "rb"), &std::fclose);
  size_t length = 0;
  if (file != nullptr) {
    length = std::fread(text, 1, sizeof(text), file.get());
  }
  if (length == 0 && gethostname(text, sizeof(text) - 1) == 0) {
    length = std::strlen(text);
  }
  return std::string(text, length);
}

aclError GetUuid(int32_t device, aclrtUuid* uuid) {
  constexpr std::string_view kName = "aclrtDeviceGetUuid";
  if (uuid == nullptr) return FailNull(kName, "uuid");
  if (const aclError error = RequireDevice(kName, device)) return error;
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (const unsigned char c : "flashacl " + Machine()) {
    hash = (hash ^ c) * 0x100000001B3u;
  }
  Random bits(hash + static_cast<uint64_t>(
                         VisibleDevices()[static_cast<size_t>(device)]));
  // All zeros stand for no device.
  const uint64_t words[] = {bits.Bits() | 1, bits.Bits()};
  static_assert(sizeof(words) == sizeof(uuid->bytes));
  std::memcpy(uuid->bytes, words, sizeof(words));
  return ACL_SUCCESS;
}

aclError GetTgid(int32_t* pid) {
  if (pid == nullptr) return FailNull("aclrtDeviceGetBareTgid", "pid");
  *pid = static_cast<int32_t>(getpid());
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  return a::GuardRuntime([&] { return a::GetUuid(deviceId, uuid); });
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  return a::GuardRuntime([&] { return a::GetTgid(pid); });
}

}  // extern "C"
