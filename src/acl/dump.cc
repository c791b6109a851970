// SPDX-License-Identifier: Apache-2.0
#include "acl/dump.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "acl/acl_dump.h"
#include "acl/config.h"
#include "acl/dump_config.h"
#include "acl/error.h"
#include "acl/init.h"
#include "acl/recording.h"
#include "acl/say.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

struct DumpState {
  ProcessMutex mutex;
  bool by_init = false;      // the file of aclInit
  bool initialised = false;  // aclmdlInitDump
  bool set = false;          // aclmdlSetDump, with settings
  bool arguments = false;    // aclopStartDumpArgs
};

DumpState& TheDumpState() {
  static constinit MadeOnce<DumpState> state;
  return *state;
}

// A configuration is a page of text; this is a file that was not meant.
constexpr size_t kLargestFile = size_t{16} << 20;

bool ReadFile(const char* path, std::string* text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path, "rb"), &std::fclose);
  if (file == nullptr) return false;
  char part[4096];
  size_t n = 0;
  while ((n = std::fread(part, 1, sizeof(part), file.get())) > 0) {
    if (text->size() > kLargestFile) return false;
    text->append(part, n);
  }
  return std::ferror(file.get()) == 0;
}

void Start(const char* asked, RecordingSetting setting) {
  if (EnvironmentRecords()) {
    Log(Level::kWarning, "FLASHACL",
        Str("{}: FLASHACL_RECORD is set and decides what is recorded", asked));
    return;
  }
  if (!setting.operators) {
    Log(Level::kWarning, "FLASHACL",
        Str("{}: dump_op_switch is \"off\": no calls of operators are recorded",
            asked));
  }
  // The program may change its directory before the first call is recorded.
  setting.directory = std::filesystem::absolute(setting.directory).string();
  std::string by = Str("{} with {}", asked, setting.directory);
  StartRecording(
      std::make_shared<const Recording>(std::move(setting), std::move(by)));
}

aclError FailRunning(const char* function, std::string_view what) {
  return Fail(ACL_ERROR_DUMP_ALREADY_RUN, Title::kCallSequence,
              Str("{} failed because {}.", function, what));
}

aclError FailNotRunning(const char* function, std::string_view first) {
  return Fail(
      ACL_ERROR_DUMP_NOT_RUN, Title::kCallSequence,
      Str("{} failed because {} was not called before.", function, first));
}

constexpr const char* kOfInit =
    "the file of aclInit has settings of a dump, which lasts until aclFinalize";
constexpr const char* kArguments =
    "aclopStartDumpArgs records into another directory, until "
    "aclopStopDumpArgs";

aclError InitDump() {
  constexpr const char* kFunction = "aclmdlInitDump";
  if (!IsInitialised()) {
    return Fail(
        ACL_ERROR_UNINITIALIZE, Title::kCallSequence,
        Str("{} failed because aclInit was not called before.", kFunction));
  }
  DumpState& state = TheDumpState();
  const std::lock_guard lock(state.mutex);
  if (state.by_init) return FailRunning(kFunction, kOfInit);
  if (state.initialised) {
    return Fail(ACL_ERROR_REPEAT_INITIALIZE, Title::kCallSequence,
                Str("{} failed because it was called before; "
                    "aclmdlFinalizeDump ends the dump.",
                    kFunction));
  }
  state.initialised = true;
  return ACL_SUCCESS;
}

aclError SetDump(const char* path) {
  constexpr const char* kFunction = "aclmdlSetDump";
  if (path == nullptr) return FailNull(kFunction, "dumpCfgPath");
  DumpState& state = TheDumpState();
  const std::lock_guard lock(state.mutex);
  if (!state.initialised) return FailNotRunning(kFunction, "aclmdlInitDump");
  if (state.arguments) return FailRunning(kFunction, kArguments);
  std::string text;
  std::optional<RecordingSetting> setting;
  if (aclError error = ReadConfiguration(kFunction, path, &text)) return error;
  if (aclError error = ReadDump(kFunction, path, text, &setting)) return error;
  // The newest settings count, if it is to end them.
  if (state.set) EndRecording();
  state.set = setting.has_value();
  if (setting.has_value()) Start(kFunction, *std::move(setting));
  return ACL_SUCCESS;
}

aclError FinalizeDump() {
  constexpr const char* kFunction = "aclmdlFinalizeDump";
  DumpState& state = TheDumpState();
  const std::lock_guard lock(state.mutex);
  if (!state.initialised) return FailNotRunning(kFunction, "aclmdlInitDump");
  if (std::exchange(state.set, false)) EndRecording();
  state.initialised = false;
  return ACL_SUCCESS;
}

aclError CheckType(const char* function, uint32_t type) {
  if (type == ACL_OP_DUMP_OP_AICORE_ARGS) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "dumpType",
                   Str("{}", type), "1 (ACL_OP_DUMP_OP_AICORE_ARGS)");
}

aclError StartArguments(uint32_t type, const char* path) {
  constexpr const char* kFunction = "aclopStartDumpArgs";
  if (aclError error = CheckType(kFunction, type)) return error;
  if (path == nullptr) return FailNull(kFunction, "path");
  DumpState& state = TheDumpState();
  const std::lock_guard lock(state.mutex);
  if (state.arguments) return FailRunning(kFunction, kArguments);
  if (state.by_init) return FailRunning(kFunction, kOfInit);
  if (state.set) {
    return FailRunning(kFunction,
                       "aclmdlSetDump records into another directory, until "
                       "aclmdlFinalizeDump");
  }
  const Status good = CheckDumpDirectory(path);
  if (!good.ok()) {
    return FailValue(
        ACL_ERROR_INVALID_PARAM, kFunction, "path", Str("{}", path),
        Str("a directory that can be written ({})", good.message()));
  }
  RecordingSetting setting;
  setting.directory = path;
  setting.inputs = setting.outputs = false;
  Start(kFunction, std::move(setting));
  state.arguments = true;
  return ACL_SUCCESS;
}

aclError StopArguments(uint32_t type) {
  constexpr const char* kFunction = "aclopStopDumpArgs";
  if (aclError error = CheckType(kFunction, type)) return error;
  DumpState& state = TheDumpState();
  const std::lock_guard lock(state.mutex);
  if (!state.arguments) return FailNotRunning(kFunction, "aclopStartDumpArgs");
  EndRecording();
  state.arguments = false;
  return ACL_SUCCESS;
}

}  // namespace

aclError ReadConfiguration(const char* function, const char* path,
                           std::string* text) {
  if (!ReadFile(path, text)) {
    return Fail(
        ACL_ERROR_INVALID_FILE, Title::kFile,
        Str("{} failed because file {} cannot be read.", function, path));
  }
  const Result<Config> parsed = ParseConfig(*text);
  if (parsed.ok()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_PARSE_FILE, Title::kFile,
              Str("{} failed because of file {}: {}.", function, path,
                  parsed.status().message()));
}

aclError ReadDump(const char* function, const char* path,
                  const std::string& text,
                  std::optional<RecordingSetting>* setting) {
  Result<std::optional<RecordingSetting>> read = ParseDump(text);
  Status status = read.status();
  if (status.ok() && read->has_value()) {
    status = CheckDumpDirectory((*read)->directory);
    if (!status.ok()) status = Invalid("dump.dump_path: {}", status.message());
  }
  if (!status.ok()) {
    return Fail(ACL_ERROR_INVALID_DUMP_CONFIG, Title::kFile,
                Str("{} failed because of file {}: {}.", function, path,
                    status.message()));
  }
  *setting = *std::move(read);
  return ACL_SUCCESS;
}

void StartDumpOfInit(const std::optional<RecordingSetting>& setting) {
  if (!setting.has_value()) return;
  DumpState& state = TheDumpState();
  const std::lock_guard lock(state.mutex);
  state.by_init = true;
  Start("aclInit", *setting);
}

void EndDumps() {
  DumpState& state = TheDumpState();
  const std::lock_guard lock(state.mutex);
  const bool any = state.by_init || state.set || state.arguments;
  state.by_init = state.initialised = state.set = state.arguments = false;
  if (any) EndRecording();
}

}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclmdlInitDump(void) {
  return acl::GuardRuntime([] { return acl::InitDump(); });
}

aclError aclmdlSetDump(const char* dumpCfgPath) {
  return acl::GuardRuntime([&] { return acl::SetDump(dumpCfgPath); });
}

aclError aclmdlFinalizeDump(void) {
  return acl::GuardRuntime([] { return acl::FinalizeDump(); });
}

aclError aclopStartDumpArgs(uint32_t dumpType, const char* path) {
  return acl::GuardRuntime([&] { return acl::StartArguments(dumpType, path); });
}

aclError aclopStopDumpArgs(uint32_t dumpType) {
  return acl::GuardRuntime([&] { return acl::StopArguments(dumpType); });
}

}  // extern "C"
