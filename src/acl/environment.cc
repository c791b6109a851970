// SPDX-License-Identifier: Apache-2.0
#include "acl/environment.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "acl/closed_memory.h"
#include "acl/device.h"
#include "acl/say.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

// Null when not set: for us, an empty list of devices is not "no list".
const char* Get(const char* name) { return std::getenv(name); }

std::string GetString(const char* name) {
  const char* value = Get(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool GetSwitch(const char* name) { return GetString(name) == "1"; }

// Of a variable of ours: a typing error must not pass for another wish.
void Complain(Environment& e, const char* name, std::string_view expected) {
  e.complaints.push_back(
      Str("{}={} is ignored: expected {}", name, GetString(name), expected));
}

// `otherwise` for anything that is not a number from `low` to `high`.
int ToInt(const char* value, int low, int high, int otherwise,
          bool* good = nullptr) {
  if (good != nullptr) *good = true;
  if (value == nullptr || *value == '\0') return otherwise;
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(value, &end, 10);
  if (errno == 0 && *end == '\0' && low <= number && number <= high) {
    return static_cast<int>(number);
  }
  if (good != nullptr) *good = false;
  return otherwise;
}

int GetInt(const char* name, int low, int high, int otherwise,
           bool* good = nullptr) {
  return ToInt(Get(name), low, high, otherwise, good);
}

int GetOwnInt(Environment& e, const char* name, int high) {
  bool good = true;
  const int number = GetInt(name, 1, high, 0, &good);
  if (!good) Complain(e, name, Str("a number from 1 to {}", high));
  return number;
}

void ReadStrict(Environment& e) {
  constexpr const char* kName = "FLASHACL_STRICT";
  const std::string value = GetString(kName);
  e.strict_exit = value == "exit";
  e.strict = e.strict_exit || value == "1";
  if (e.strict || value.empty() || value == "0") return;
  Complain(e, kName, "1 or exit, or 0 for off");
}

void ReadRecord(Environment& e) {
  const std::string value = GetString("FLASHACL_RECORD");
  if (value.empty()) return;
  Result<record::Setting> setting = record::ParseSetting(value);
  if (setting.ok()) {
    e.record = *std::move(setting);
    return;
  }
  e.complaints.push_back(Str("FLASHACL_RECORD={} is ignored: {}", value,
                             setting.status().message()));
}

// Launchers of many processes, such as torchrun, give each its share of the
// cores by OpenMP's variable: a number for each level of nesting.
int GetThreads(Environment& e) {
  constexpr int kMax = 1 << 16;
  const int own = GetOwnInt(e, "FLASHACL_NUM_THREADS", kMax);
  const std::string all = GetString("OMP_NUM_THREADS");
  const std::string outermost = all.substr(0, all.find(','));
  return own != 0 ? own : ToInt(outermost.c_str(), 1, kMax, 0);
}

Environment Read() {
  Environment e;
  e.trace_path = GetString("FLASHACL_TRACE");
  ReadStrict(e);
  ReadRecord(e);
  e.num_threads = GetThreads(e);
  e.target = GetString("FLASHACL_TARGET");
  e.has_visible_devices = Get("ASCEND_RT_VISIBLE_DEVICES") != nullptr;
  e.visible_devices = GetString("ASCEND_RT_VISIBLE_DEVICES");
  e.log_level = GetInt("ASCEND_GLOBAL_LOG_LEVEL", 0, 4, 3);  // 4: nothing
  e.log_to_stdout = GetSwitch("ASCEND_SLOG_PRINT_TO_STDOUT");
  e.home_path = GetString("ASCEND_HOME_PATH");
  e.devices = GetOwnInt(e, "FLASHACL_DEVICES", kMaxDevices);
  e.soc = GetString("FLASHACL_SOC");
  return e;
}

}  // namespace

const Environment& TheEnvironment() {
  // Never destroyed: threads may still ask while the process exits.
  static constinit MadeOnce<const Environment> environment;
  return environment.Get([] {
    Environment read = Read();
    for (const std::string& complaint : read.complaints) Say(complaint);
    return read;
  });
}

bool HostTouchesDevice() { return GetSwitch("FLASHACL_HOST_ACCESS"); }

}  // namespace flashacl::acl
