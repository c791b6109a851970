// SPDX-License-Identifier: Apache-2.0
#include "acl/init.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/closed_memory.h"
#include "acl/config.h"
#include "acl/device.h"
#include "acl/dump.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/finding.h"
#include "acl/handle.h"
#include "acl/memory.h"
#include "acl/soc.h"
#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

template <typename F>
struct Callback {
  aclRegisterCallbackType type;
  F function;
  void* user_data;
};

struct InitState {
  ProcessMutex mutex;  // guards what follows; never held when calling others
  uint64_t references = 0;
  bool was_initialised = false;  // ever
  std::string config;            // the text of the first aclInit
  std::vector<Callback<aclInitCallbackFunc>> on_init;
  std::vector<Callback<aclFinalizeCallbackFunc>> on_finalize;
  std::vector<void (*)()> finalizers;
  std::vector<void (*)(std::string*)> reporters;
};

InitState& TheInitState() {
  static constinit MadeOnce<InitState> state;
  return *state;
}

// What the file of aclInit says; no path is an empty file.
struct Loaded {
  std::string text;
  Config config;
  std::optional<RecordingSetting> dump;
};

aclError Load(const char* path, Loaded* loaded) {
  if (path == nullptr || *path == '\0') return ACL_SUCCESS;
  constexpr const char* kFunction = "aclInit";
  if (aclError error = ReadConfiguration(kFunction, path, &loaded->text)) {
    return error;
  }
  loaded->config = *ParseConfig(loaded->text);
  return ReadDump(kFunction, path, loaded->text, &loaded->dump);
}

aclError Init(const char* path) {
  InitState& state = TheInitState();
  std::unique_lock lock(state.mutex);
  if (state.references > 0) {
    ++state.references;
    return Fail(ACL_ERROR_REPEAT_INITIALIZE, Title::kCallSequence,
                "aclInit was called before; the call counts for "
                "aclFinalizeReference only.");
  }
  if (aclError error = RequireSoc("aclInit")) return error;
  Loaded loaded;
  if (aclError error = Load(path, &loaded)) return error;
  const auto& [text, config, dump] = loaded;
  if (state.was_initialised && text != state.config) {
    return Fail(ACL_ERROR_INVALID_PARAM, Title::kReason,
                "aclInit failed because its configuration differs from that "
                "of the first aclInit.");
  }
  if (config.default_device >= 0) {
    if (aclError error = RequireDevice("aclInit", config.default_device)) {
      return error;
    }
  }
  TheEnvironment();
  SetProcessMessages(config.process_messages);
  SetDefaultDevice(config.default_device);
  state.references = 1;
  state.was_initialised = true;
  state.config = text;
  StartDumpOfInit(dump);
  const auto callbacks = state.on_init;
  lock.unlock();
  for (const auto& call : callbacks) {
    call.function(text.data(), text.size(), call.user_data);
  }
  return ACL_SUCCESS;
}

// One message that says what was not released, if anything.
void ReportLeaks(const std::vector<void (*)(std::string*)>& reporters) {
  std::string all;
  const auto add = [&](std::string_view part) {
    if (part.empty()) return;
    if (!all.empty()) all += ", ";
    all += part;
  };
  const auto live = LiveHandles();
  for (int kind = 0; kind < kHandleKinds; ++kind) {
    const int64_t count = live[static_cast<size_t>(kind)];
    if (count == 0) continue;
    add(Str("{} {}{}", count, Name(static_cast<HandleKind>(kind)),
            count == 1 ? "" : "s"));
  }
  for (const auto report : reporters) {
    std::string part;
    report(&part);
    add(part);
  }
  if (all.empty()) return;
  CountFinding();
  Fail(ACL_ERROR_INVALID_PARAM, Title::kReason,
       Str("aclFinalize: not released: {}.{}{}", all, LeakedHandles(),
           LeakedBlocks()));
}

void TearDown(std::unique_lock<ProcessMutex> lock) {
  InitState& state = TheInitState();
  state.references = 0;
  const auto callbacks = state.on_finalize;
  const auto finalizers = state.finalizers;
  const auto reporters = state.reporters;
  lock.unlock();
  for (const auto& call : callbacks) call.function(call.user_data);
  EndDumps();
  // Strict mode, but not of a program with operators of its own: a framework's
  // streams, caches and live tensors last as long as the process.
  if (ClosesDeviceMemory()) ReportLeaks(reporters);
  std::for_each(finalizers.rbegin(), finalizers.rend(),
                [](void (*finalizer)()) { finalizer(); });
  SetDefaultDevice(-1);
}

aclError FailRepeated(std::string_view function) {
  return Fail(
      ACL_ERROR_REPEAT_FINALIZE, Title::kCallSequence,
      Str("{} failed because every aclInit is already finalized.", function));
}

aclError Finalize() {
  InitState& state = TheInitState();
  std::unique_lock lock(state.mutex);
  if (state.references == 0) {
    return state.was_initialised ? FailRepeated("aclFinalize") : ACL_SUCCESS;
  }
  TearDown(std::move(lock));
  return ACL_SUCCESS;
}

aclError FinalizeReference(uint64_t* count) {
  InitState& state = TheInitState();
  std::unique_lock lock(state.mutex);
  if (state.references == 0) return FailRepeated("aclFinalizeReference");
  const uint64_t left = state.references - 1;
  if (left == 0) {
    TearDown(std::move(lock));
  } else {
    state.references = left;
  }
  if (count != nullptr) *count = left;
  return ACL_SUCCESS;
}

bool IsType(aclRegisterCallbackType type) {
  const int number = static_cast<int>(type);
  return (ACL_REG_TYPE_ACL_MODEL <= number &&
          number <= ACL_REG_TYPE_ACL_RETR) ||
         number == ACL_REG_TYPE_OTHER;
}

template <typename F>
aclError CheckCallback(std::string_view name, aclRegisterCallbackType type,
                       F function) {
  if (function == nullptr) return FailNull(name, "cbFunc");
  if (IsType(type)) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_INVALID_PARAM, name, "type",
                   Str("{}", static_cast<int>(type)),
                   "an aclRegisterCallbackType");
}

template <typename F>
aclError Remove(std::string_view name, std::vector<Callback<F>>& callbacks,
                aclRegisterCallbackType type, F function) {
  if (aclError error = CheckCallback(name, type, function)) return error;
  std::lock_guard lock(TheInitState().mutex);
  const size_t removed = std::erase_if(callbacks, [&](const auto& c) {
    return c.type == type && c.function == function;
  });
  if (removed > 0) return ACL_SUCCESS;
  return Fail(ACL_ERROR_INVALID_PARAM, Title::kReason,
              Str("{} failed because the callback is not registered.", name));
}

aclError AddInitCallback(aclRegisterCallbackType type,
                         aclInitCallbackFunc function, void* user_data) {
  constexpr std::string_view kName = "aclInitCallbackRegister";
  if (aclError error = CheckCallback(kName, type, function)) return error;
  InitState& state = TheInitState();
  std::string text;
  {
    std::lock_guard lock(state.mutex);
    state.on_init.push_back({type, function, user_data});
    if (state.references == 0) return ACL_SUCCESS;
    text = state.config;
  }
  function(text.data(), text.size(), user_data);
  return ACL_SUCCESS;
}

aclError AddFinalizeCallback(aclRegisterCallbackType type,
                             aclFinalizeCallbackFunc function,
                             void* user_data) {
  constexpr std::string_view kName = "aclFinalizeCallbackRegister";
  if (aclError error = CheckCallback(kName, type, function)) return error;
  std::lock_guard lock(TheInitState().mutex);
  TheInitState().on_finalize.push_back({type, function, user_data});
  return ACL_SUCCESS;
}

template <typename F>
void AddOnce(std::vector<F>& all, F one) {
  std::lock_guard lock(TheInitState().mutex);
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

}  // namespace

bool IsInitialised() {
  const std::lock_guard lock(TheInitState().mutex);
  return TheInitState().references > 0;
}

void AddFinalizer(void (*finalizer)()) {
  AddOnce(TheInitState().finalizers, finalizer);
}

void AddLeakReporter(void (*reporter)(std::string* text)) {
  AddOnce(TheInitState().reporters, reporter);
}

}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclInit(const char* configPath) {
  return a::GuardRuntime([&] { return a::Init(configPath); });
}

aclError aclFinalize(void) {
  return a::GuardRuntime([] { return a::Finalize(); });
}

aclError aclFinalizeReference(uint64_t* refCount) {
  return a::GuardRuntime([&] { return a::FinalizeReference(refCount); });
}

aclError aclInitCallbackRegister(aclRegisterCallbackType type,
                                 aclInitCallbackFunc cbFunc, void* userData) {
  return a::GuardRuntime(
      [&] { return a::AddInitCallback(type, cbFunc, userData); });
}

aclError aclInitCallbackUnRegister(aclRegisterCallbackType type,
                                   aclInitCallbackFunc cbFunc) {
  return a::GuardRuntime([&] {
    return a::Remove("aclInitCallbackUnRegister", a::TheInitState().on_init,
                     type, cbFunc);
  });
}

aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type,
                                     aclFinalizeCallbackFunc cbFunc,
                                     void* userData) {
  return a::GuardRuntime(
      [&] { return a::AddFinalizeCallback(type, cbFunc, userData); });
}

aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type,
                                       aclFinalizeCallbackFunc cbFunc) {
  return a::GuardRuntime([&] {
    return a::Remove("aclFinalizeCallbackUnRegister",
                     a::TheInitState().on_finalize, type, cbFunc);
  });
}

}  // extern "C"
