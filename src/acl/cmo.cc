// SPDX-License-Identifier: Apache-2.0
// Caches and overflow flags, which programs may ask about in a stream. The
// caches of a CPU need no help, and results too large are infinite: there are
// no flags that could be set.
#include <cstddef>
#include <string>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/backend.h"
#include "acl/error.h"
#include "acl/memory.h"
#include "acl/raw_enum.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

// Puts nothing on the stream: who prefetches between layers must not pay.
aclError Cmo(const void* src, size_t size, int type, aclrtStream stream) {
  constexpr std::string_view kName = "aclrtCmoAsync";
  if (src == nullptr) return FailNull(kName, "src");
  if (size == 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "size", "0",
                     "1 or more bytes");
  }
  if (type < ACL_RT_CMO_TYPE_PREFETCH || type > ACL_RT_CMO_TYPE_FLUSH) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "cmoType",
                     std::to_string(type), "an aclrtCmoType, 0 to 3");
  }
  aclError error = ACL_SUCCESS;
  (void)FindStream(stream, kName, &error);
  return error;
}

aclError GetOverflow(void* output, size_t size, aclrtStream stream) {
  constexpr std::string_view kName = "aclrtGetOverflowStatus";
  constexpr size_t kBytes = 64;
  if (output == nullptr) return FailNull(kName, "outputAddr");
  if (size != kBytes) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "outputSize",
                     std::to_string(size), std::to_string(kBytes));
  }
  Block block;
  const bool fits =
      FindBlock(output, &block) && block.device() &&
      block.reserved - static_cast<size_t>(static_cast<std::byte*>(output) -
                                           block.base) >=
          kBytes;
  if (!fits) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "outputAddr",
                     Str("{}", output),
                     Str("{} bytes of device memory", kBytes));
  }
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, kName, &error);
  if (found == nullptr) return error;
  error = RequireNotCapturing(*found, kName);
  if (error != ACL_SUCCESS) return error;
  const void* const addresses[] = {output};
  return found->Push(
      [output, use = BlockUse(addresses)] {
        DeviceMemory().Fill(static_cast<std::byte*>(output), std::byte{0},
                            kBytes);
        return ACL_SUCCESS;
      },
      kName, TaskKind::kDevice);
}

aclError ResetOverflow(aclrtStream stream) {
  constexpr std::string_view kName = "aclrtResetOverflowStatus";
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, kName, &error);
  return found == nullptr ? error : RequireNotCapturing(*found, kName);
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType,
                       aclrtStream stream) {
  return a::GuardRuntime(
      [&] { return a::Cmo(src, size, a::Raw(cmoType), stream); });
}

aclError aclrtGetOverflowStatus(void* outputAddr, size_t outputSize,
                                aclrtStream stream) {
  return a::GuardRuntime(
      [&] { return a::GetOverflow(outputAddr, outputSize, stream); });
}

aclError aclrtResetOverflowStatus(aclrtStream stream) {
  return a::GuardRuntime([&] { return a::ResetOverflow(stream); });
}

}  // extern "C"
