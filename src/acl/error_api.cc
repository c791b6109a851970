// SPDX-License-Identifier: Apache-2.0
// The functions by which programs ask what went wrong.
#include "acl/acl_rt.h"
#include "acl/error.h"

namespace flashacl::acl {
namespace {

aclError LastError(std::string_view function, aclrtLastErrLevel level,
                   aclError (*answer)()) {
  if (static_cast<int>(level) == ACL_RT_THREAD_LEVEL) return answer();
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "level",
                   Str("{}", static_cast<int>(level)), "ACL_RT_THREAD_LEVEL");
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

const char* aclGetRecentErrMsg(void) { return a::TakeMessages(); }

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  return a::GuardRuntime([&] {
    return a::LastError("aclrtPeekAtLastError", level, &a::PeekLastError);
  });
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  return a::GuardRuntime([&] {
    return a::LastError("aclrtGetLastError", level, &a::TakeLastError);
  });
}

}  // extern "C"
