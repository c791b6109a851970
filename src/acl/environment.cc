// SPDX-License-Identifier: Apache-2.0
#include "acl/environment.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "acl/device.h"

namespace flashacl::acl {
namespace {

// Null when not set: for us, an empty list of devices is not "no list".
const char* Get(const char* name) { return std::getenv(name); }

std::string GetString(const char* name) {
  const char* value = Get(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool GetSwitch(const char* name) { return GetString(name) == "1"; }

// `otherwise` for anything that is not a number from `low` to `high`.
int GetInt(const char* name, int low, int high, int otherwise) {
  const char* value = Get(name);
  if (value == nullptr || *value == '\0') return otherwise;
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(value, &end, 10);
  const bool good =
      errno == 0 && *end == '\0' && low <= number && number <= high;
  return good ? static_cast<int>(number) : otherwise;
}

Environment Read() {
  Environment e;
  e.trace_path = GetString("FLASHACL_TRACE");
  e.strict = GetSwitch("FLASHACL_STRICT");
  e.num_threads = GetInt("FLASHACL_NUM_THREADS", 1, 1 << 16, 0);
  e.target = GetString("FLASHACL_TARGET");
  e.has_visible_devices = Get("ASCEND_RT_VISIBLE_DEVICES") != nullptr;
  e.visible_devices = GetString("ASCEND_RT_VISIBLE_DEVICES");
  e.log_level = GetInt("ASCEND_GLOBAL_LOG_LEVEL", 0, 3, 3);
  e.log_to_stdout = GetSwitch("ASCEND_SLOG_PRINT_TO_STDOUT");
  e.home_path = GetString("ASCEND_HOME_PATH");
  e.devices = GetInt("FLASHACL_DEVICES", 1, kMaxDevices, 0);
  e.soc = GetString("FLASHACL_SOC");
  return e;
}

}  // namespace

const Environment& TheEnvironment() {
  // Never destroyed: threads may still ask while the process exits.
  static const Environment& environment = *new Environment(Read());
  return environment;
}

}  // namespace flashacl::acl
