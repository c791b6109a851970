// SPDX-License-Identifier: Apache-2.0
// What framework adapters link of the runtime under acl to launch kernels that
// they compiled. Those are for the NPU: each call is refused, with a message.
#include <cstdint>
#include <string_view>

#include "acl/error.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

int32_t NoKernel(std::string_view function) {
  return GuardRuntime([&] {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                Str("{} is not supported: kernels for the NPU cannot run here.",
                    function));
  });
}

}  // namespace
}  // namespace flashacl::acl

// One function, declared in no header of ours: its name and the types of its
// parameters.
#define FLASHACL_UNSUPPORTED(name, ...)                              \
  __attribute__((visibility("default"))) int32_t name(__VA_ARGS__) { \
    return flashacl::acl::NoKernel(#name);                           \
  }

struct rtDevBinary;

extern "C" {

FLASHACL_UNSUPPORTED(rtDevBinaryRegister, const rtDevBinary*, void**)
FLASHACL_UNSUPPORTED(rtFunctionRegister, void*, const void*, const char*,
                     const void*, uint32_t)
FLASHACL_UNSUPPORTED(rtKernelLaunch, const void*, uint32_t, void*, uint32_t,
                     void*, void*)
FLASHACL_UNSUPPORTED(rtGetC2cCtrlAddr, uint64_t*, uint32_t*)

}  // extern "C"

#undef FLASHACL_UNSUPPORTED
