// SPDX-License-Identifier: Apache-2.0
// aclAppLog: the program's own log lines.
#include <cstdarg>
#include <cstdio>
#include <string>

#include "acl/acl_rt.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/say.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr size_t kLongestText = 1023;

bool Wanted(int level) {
  const Environment& environment = TheEnvironment();
  return environment.log_to_stdout && level >= environment.log_level &&
         level <= ACL_ERROR;
}

}  // namespace
}  // namespace flashacl::acl

extern "C" void aclAppLog(aclLogLevel logLevel, const char* func,
                          const char* file, uint32_t line, const char* fmt,
                          ...) {
  namespace acl = flashacl::acl;
  if (fmt == nullptr) return;
  va_list arguments;
  va_start(arguments, fmt);
  acl::GuardRuntime([&]() -> aclError {
    static constexpr const char* kLevels[] = {"DEBUG", "INFO", "WARNING",
                                              "ERROR"};
    const int level = acl::Raw(logLevel);
    if (level < 0 || !acl::Wanted(level)) return ACL_SUCCESS;
    char text[acl::kLongestText + 1] = "";
    vsnprintf(text, sizeof text, fmt, arguments);
    acl::WriteLog(flashacl::Str("[{}] {} {}:{}: {}\n", kLevels[level],
                                func == nullptr ? "" : func,
                                file == nullptr ? "" : file, line, text));
    return ACL_SUCCESS;
  });
  va_end(arguments);
}
