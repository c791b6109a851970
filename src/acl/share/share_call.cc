// SPDX-License-Identifier: Apache-2.0
#include "acl/share/share_call.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/error.h"
#include "base/str.h"

namespace flashacl::acl {

aclError FailToShare(std::string_view function) {
  const int error = errno;
  switch (error) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOSYS:
    case ENOTDIR:
      return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                  Str("{} failed because this system has no shared memory in "
                      "/dev/shm for this user: {}.",
                      function, std::strerror(error)));
    default:
      return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                  Str("{} failed because the system has no shared memory or no "
                      "file left: {}. Look at the size of /dev/shm and at the "
                      "limit of open files (ulimit -n).",
                      function, std::strerror(error)));
  }
}

aclError FailToOpen(ShareOpening opening, std::string_view function,
                    std::string_view parameter, std::string value,
                    aclError code) {
  const auto fail = [&](std::string_view expected) {
    return FailValue(code, function, parameter, std::move(value), expected);
  };
  switch (opening) {
    case ShareOpening::kOpened:
      return ACL_SUCCESS;
    case ShareOpening::kUnknown:
      return fail(
          "what a live process of this machine and user has exported and not "
          "closed; aclFinalize closes all");
    case ShareOpening::kNotListed:
      return fail(
          Str("one whose exporter lets process {} import: it is not on the "
              "list of processes",
              ThisProcess().pid));
    case ShareOpening::kFull:
      return fail(Str("one that is imported less than {} times", kShareUsers));
  }
  return ACL_SUCCESS;
}

aclError FailFinalized(std::string_view function, std::string_view parameter,
                       std::string value) {
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, parameter,
                   std::move(value),
                   "one that was made since the last aclFinalize, which ends "
                   "what this process shares: make another");
}

aclError AllowProcesses(std::string_view function, SharedObject& object,
                        const int32_t* pids, size_t count) {
  const std::span<const int32_t> all(pids, count);
  const auto wrong =
      std::ranges::find_if(all, [](int32_t pid) { return pid <= 0; });
  if (wrong != all.end()) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "pid",
                     Str("{}", *wrong), "numbers of processes");
  }
  if (object.Allow(all)) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
              Str("{} failed because a list holds {} processes at most.",
                  function, kShareListed));
}

aclError CheckNameBuffer(std::string_view function, size_t bytes) {
  if (bytes >= kShareNameBytes) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "len",
                   Str("{}", bytes), "65 or more");
}

void WriteName(uint64_t number, char* buffer) {
  const std::string name = ShareName(number);
  std::memcpy(buffer, name.c_str(), name.size() + 1);
}

uint64_t NumberOf(const char* name) {
  uint64_t number = 0;
  const size_t size = strnlen(name, kShareNameBytes - 1);
  return ParseShareName({name, size}, &number) ? number : 0;
}

std::string Shown(const char* name) {
  return {name, strnlen(name, kShareNameBytes - 1)};
}

}  // namespace flashacl::acl
