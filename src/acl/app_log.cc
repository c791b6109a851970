// SPDX-License-Identifier: Apache-2.0
// aclAppLog: the program's own log lines. The one place that writes to standard
// output, and only if the user's environment asks for it.
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "acl/acl_rt.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr size_t kLongestText = 1023;

bool Wanted(int level) {
  const Environment& environment = TheEnvironment();
  return environment.log_to_stdout && level >= environment.log_level &&
         level <= ACL_ERROR;
}

// One write per line, so that lines of several threads do not mix.
void WriteLine(const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t written =
        write(STDOUT_FILENO, line.data() + done, line.size() - done);
    if (written <= 0) return;  // a log that cannot be written is not an error
    done += static_cast<size_t>(written);
  }
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
    acl::WriteLine(flashacl::Str("[{}] {} {}:{}: {}\n", kLevels[level],
                                 func == nullptr ? "" : func,
                                 file == nullptr ? "" : file, line, text));
    return ACL_SUCCESS;
  });
  va_end(arguments);
}
