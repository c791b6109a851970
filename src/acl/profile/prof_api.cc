// SPDX-License-Identifier: Apache-2.0
// Profiles of the C API: a folder, what to profile, and from when to when.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "acl/acl_prof.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "acl/profile/timeline.h"
#include "acl/profile/trace_json.h"
#include "acl/raw_enum.h"
#include "base/fork.h"

namespace flashacl::acl::profile {
namespace {

constexpr size_t kMaxPath = 4096;
constexpr uint32_t kMaxDevices = 64;
constexpr size_t kMaxOption = 256;
// In the place of a device for a profile of the host alone.
constexpr uint32_t kHostAlone = UINT32_MAX;

struct Config {
  static constexpr HandleKind kHandleKind = HandleKind::kProfileConfig;

  std::set<uint32_t> devices;
};

struct Profiler {
  std::mutex mutex;
  bool initialised = false;
  std::string folder;
  std::map<int, std::string> options;
  std::set<uint32_t> started;  // devices
  int64_t begin_ns = 0;        // of the first of these
  int files = 0;               // written so far
};

// A forked child profiles nothing until it asks for it.
Profiler& TheProfiler() {
  static PerProcess<Profiler> profiler;
  return *profiler;
}

// 0, or 100004. Makes the folder where the one that it lies in exists.
aclError RequireFolder(std::string_view function, const std::string& path) {
  const auto fail = [&](int error) {
    return Fail(ACL_ERROR_WRITE_FILE, Title::kFile,
                Str("{} failed because no file can be written into folder {}: "
                    "{}.",
                    function, path, std::strerror(error)));
  };
  if (mkdir(path.c_str(), 0750) == 0) return ACL_SUCCESS;
  if (errno != EEXIST) return fail(errno);
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return fail(errno);
  if (!S_ISDIR(facts.st_mode)) return fail(ENOTDIR);
  return access(path.c_str(), W_OK | X_OK) == 0 ? ACL_SUCCESS : fail(errno);
}

aclError Init(const char* path, size_t length) {
  constexpr std::string_view kName = "aclprofInit";
  if (path == nullptr) return FailNull(kName, "profilerResultPath");
  if (length == 0 || length > kMaxPath) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "length",
                     Str("{}", length), Str("[1, {}]", kMaxPath));
  }
  Profiler& profiler = TheProfiler();
  std::lock_guard lock(profiler.mutex);
  if (profiler.initialised) {
    return Fail(ACL_ERROR_REPEAT_INITIALIZE, Title::kCallSequence,
                "aclprofInit failed because it was called before.");
  }
  std::string folder(path, strnlen(path, length));
  if (aclError error = RequireFolder(kName, folder)) return error;
  profiler.folder = std::move(folder);
  profiler.initialised = true;
  return ACL_SUCCESS;
}

// 0, or 100043. With the lock held.
aclError RequireInit(std::string_view function) {
  if (TheProfiler().initialised) return ACL_SUCCESS;
  return Fail(
      ACL_ERROR_PROF_NOT_RUN, Title::kCallSequence,
      Str("{} failed because aclprofInit was not called before.", function));
}

// Ends the profile and writes it. With the lock held.
aclError Write(std::string_view function) {
  Profiler& profiler = TheProfiler();
  const Recorded recorded = StopRecording(profiler.begin_ns);
  profiler.started.clear();
  const std::string path = Str("{}/flashacl_trace_{}_{}.json", profiler.folder,
                               getpid(), ++profiler.files);
  const Status written = WriteTrace(recorded, path);
  if (written.ok()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_WRITE_FILE, Title::kFile,
              Str("{} failed because {}.", function, written.message()));
}

aclError Finalize() {
  constexpr std::string_view kName = "aclprofFinalize";
  Profiler& profiler = TheProfiler();
  std::lock_guard lock(profiler.mutex);
  if (aclError error = RequireInit(kName)) return error;
  const aclError error = profiler.started.empty() ? ACL_SUCCESS : Write(kName);
  profiler.initialised = false;
  profiler.options.clear();
  return error;
}

bool IsMetric(int metric) {
  return (ACL_AICORE_ARITHMETIC_UTILIZATION <= metric &&
          metric <= ACL_AICORE_MEMORY_ACCESS) ||
         metric == ACL_AICORE_NONE;
}

aclError CreateConfig(const uint32_t* devices, uint32_t count, int metric,
                      const aclprofAicoreEvents* events, aclprofConfig** made) {
  constexpr std::string_view kName = "aclprofCreateConfig";
  if (devices == nullptr && count > 0) return FailNull(kName, "deviceIdList");
  const auto fail = [&](std::string_view what, std::string value,
                        std::string_view expected) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, what, std::move(value),
                     expected);
  };
  if (count > kMaxDevices) {
    return fail("deviceNums", Str("{}", count), Str("[0, {}]", kMaxDevices));
  }
  if (events != nullptr) {
    return fail("aicoreEvents", Str("{}", static_cast<const void*>(events)),
                "a null pointer");
  }
  if (!IsMetric(metric)) {
    return fail("aicoreMetrics", Str("{}", metric), "an aclprofAicoreMetrics");
  }
  auto config = std::make_shared<Config>();
  config->devices.insert(devices, devices + count);
  if (count == 0) config->devices.insert(kHostAlone);
  *made = static_cast<aclprofConfig*>(NewHandle(std::move(config)));
  if (*made != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
              "aclprofCreateConfig failed because there are no handles left.");
}

aclError FailConfig(std::string_view function, const aclprofConfig* config) {
  if (config == nullptr) return FailNull(function, "profilerConfig");
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "profilerConfig",
                   Str("{}", static_cast<const void*>(config)),
                   ExpectedInsteadOf(Config::kHandleKind, config));
}

// "device 3", or what stands in its place.
std::string NameOf(uint32_t device) {
  return device == kHostAlone ? "the host" : Str("device {}", device);
}

aclError Start(const aclprofConfig* handle) {
  constexpr std::string_view kName = "aclprofStart";
  Profiler& profiler = TheProfiler();
  std::lock_guard lock(profiler.mutex);
  if (aclError error = RequireInit(kName)) return error;
  const auto config = Find<Config>(handle);
  if (config == nullptr) return FailConfig(kName, handle);
  for (const uint32_t device : config->devices) {
    if (!profiler.started.contains(device)) continue;
    return Fail(
        ACL_ERROR_PROF_ALREADY_RUN, Title::kCallSequence,
        Str("{} failed because {} is started already.", kName, NameOf(device)));
  }
  std::set<uint32_t> started = profiler.started;
  started.insert(config->devices.begin(), config->devices.end());
  if (profiler.started.empty()) profiler.begin_ns = StartRecording();
  profiler.started.swap(started);
  return ACL_SUCCESS;
}

aclError Stop(const aclprofConfig* handle) {
  constexpr std::string_view kName = "aclprofStop";
  Profiler& profiler = TheProfiler();
  std::lock_guard lock(profiler.mutex);
  if (aclError error = RequireInit(kName)) return error;
  const auto config = Find<Config>(handle);
  if (config == nullptr) return FailConfig(kName, handle);
  for (const uint32_t device : config->devices) {
    if (profiler.started.contains(device)) continue;
    return Fail(
        ACL_ERROR_PROF_NOT_RUN, Title::kCallSequence,
        Str("{} failed because {} is not started.", kName, NameOf(device)));
  }
  // The profile lasts until the last device stops.
  if (config->devices.size() == profiler.started.size()) return Write(kName);
  for (const uint32_t device : config->devices) profiler.started.erase(device);
  return ACL_SUCCESS;
}

aclError SetConfig(int type, const char* config, size_t length) {
  constexpr std::string_view kName = "aclprofSetConfig";
  Profiler& profiler = TheProfiler();
  std::lock_guard lock(profiler.mutex);
  if (aclError error = RequireInit(kName)) return error;
  if (config == nullptr) return FailNull(kName, "config");
  if (length > kMaxOption) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "configLength",
                     Str("{}", length), Str("[0, {}]", kMaxOption));
  }
  if (type <= ACL_PROF_ARGS_MIN || type > ACL_PROF_PATH) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "configType",
                     Str("{}", type), "[1, 16]");
  }
  profiler.options[type] = std::string(config, strnlen(config, length));
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl::profile

namespace a = flashacl::acl;
namespace p = flashacl::acl::profile;

extern "C" {

aclError aclprofInit(const char* profilerResultPath, size_t length) {
  return a::GuardRuntime([&] { return p::Init(profilerResultPath, length); });
}

aclError aclprofFinalize(void) {
  return a::GuardRuntime([] { return p::Finalize(); });
}

aclprofConfig* aclprofCreateConfig(uint32_t* deviceIdList, uint32_t deviceNums,
                                   aclprofAicoreMetrics aicoreMetrics,
                                   const aclprofAicoreEvents* aicoreEvents,
                                   uint64_t /*dataTypeConfig*/) {
  aclprofConfig* made = nullptr;
  (void)a::GuardRuntime([&] {
    return p::CreateConfig(deviceIdList, deviceNums, a::Raw(aicoreMetrics),
                           aicoreEvents, &made);
  });
  return made;
}

aclError aclprofDestroyConfig(const aclprofConfig* profilerConfig) {
  return a::GuardRuntime([&]() -> aclError {
    if (a::Take<p::Config>(profilerConfig) != nullptr) return ACL_SUCCESS;
    return p::FailConfig("aclprofDestroyConfig", profilerConfig);
  });
}

aclError aclprofStart(const aclprofConfig* profilerConfig) {
  return a::GuardRuntime([&] { return p::Start(profilerConfig); });
}

aclError aclprofStop(const aclprofConfig* profilerConfig) {
  return a::GuardRuntime([&] { return p::Stop(profilerConfig); });
}

aclError aclprofSetConfig(aclprofConfigType configType, const char* config,
                          size_t configLength) {
  return a::GuardRuntime(
      [&] { return p::SetConfig(a::Raw(configType), config, configLength); });
}

}  // extern "C"
