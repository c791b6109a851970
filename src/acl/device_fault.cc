// SPDX-License-Identifier: Apache-2.0
#include "acl/device_fault.h"

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/device.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/stream.h"
#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

class FaultState {
 public:
  bool aborted() const { return aborts_.load() != 0; }
  void BeginAbort() {
    uint32_t seen = aborts_.load();
    while (!aborts_.compare_exchange_weak(seen, (seen | kAborted) + kOne)) {
    }
  }
  void FinishAbort() { aborts_.fetch_sub(kOne); }
  // Nothing while an abort is under way: what it drops is not all dropped yet.
  void Resume() {
    uint32_t over = kAborted;
    aborts_.compare_exchange_strong(over, 0);
  }

  std::atomic<bool> faulted{false};

 private:
  static constexpr uint32_t kAborted = 1;
  static constexpr uint32_t kOne = 2;  // for each abort that is under way
  std::atomic<uint32_t> aborts_{0};
};

// A forked child has none of its parent's work.
FaultState& FaultOf(int device) {
  static PerProcess<std::array<FaultState, kMaxDevices>> states;
  return (*states)[static_cast<size_t>(device)];
}

struct Observer {
  aclrtDeviceTaskAbortCallback function;
  void* args;
};

struct Observers {
  ProcessMutex mutex;  // guards what follows; never held when calling them
  std::map<std::string, Observer, std::less<>> by_name;
};

Observers& TheObservers() {
  static constinit MadeOnce<Observers> observers;
  return *observers;
}

aclError SetObserver(const char* name, aclrtDeviceTaskAbortCallback function,
                     void* args) {
  constexpr std::string_view kName = "aclrtSetDeviceTaskAbortCallback";
  if (name == nullptr) return FailNull(kName, "regName");
  if (*name == '\0') {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "regName", "\"\"",
                     "a name");
  }
  Observers& observers = TheObservers();
  std::lock_guard lock(observers.mutex);
  if (function == nullptr) {
    observers.by_name.erase(name);
  } else {
    observers.by_name[name] = {function, args};
  }
  return ACL_SUCCESS;
}

std::vector<Observer> AllObservers() {
  Observers& observers = TheObservers();
  std::lock_guard lock(observers.mutex);
  std::vector<Observer> all;
  all.reserve(observers.by_name.size());
  for (const auto& [name, observer] : observers.by_name) {
    all.push_back(observer);
  }
  return all;
}

aclError AbortDevice(int32_t device, uint32_t ms) {
  constexpr std::string_view kName = "aclrtDeviceTaskAbort";
  constexpr uint32_t kLongest = 36 * 60 * 1000;
  if (const aclError error = RequireDevice(kName, device)) return error;
  if (ms > kLongest) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "timeout",
                     Str("{}", ms), Str("0 to {} milliseconds", kLongest));
  }
  const std::vector<Observer> observers = AllObservers();
  const auto tell = [&](aclrtDeviceTaskAbortStage stage) {
    for (const Observer& observer : observers) {
      (void)observer.function(device, stage, ms, observer.args);
    }
  };
  tell(ACL_RT_DEVICE_TASK_ABORT_PRE);
  // First: what is submitted from now on is refused, the rest is dropped.
  bool ended = false;
  {
    struct Aborting {
      int device;
      bool fails = true;  // for want of memory
      explicit Aborting(int id) : device(id) { FaultOf(id).BeginAbort(); }
      ~Aborting() {
        FaultOf(device).FinishAbort();
        if (fails) EndAbort(device);
      }
    } aborting(device);
    ended = AbortStreams(device, ms == 0 ? std::nullopt : DeadlineIn(ms));
    aborting.fails = false;
  }
  tell(ACL_RT_DEVICE_TASK_ABORT_POST);
  if (ended) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, Title::kTimeout,
              Str("{} failed because a task of device {} that was running did "
                  "not end within {} ms.",
                  kName, device, ms));
}

aclError GetErrorVerbose(int32_t device, aclrtErrorInfo* info) {
  constexpr std::string_view kName = "aclrtGetErrorVerbose";
  if (info == nullptr) return FailNull(kName, "errorInfo");
  if (const aclError error = RequireDevice(kName, device)) return error;
  *info = {};
  info->errorType =
      FaultOf(device).faulted.load() ? ACL_RT_ERROR_OTHERS : ACL_RT_NO_ERROR;
  return ACL_SUCCESS;
}

aclError RepairError(int32_t device, const aclrtErrorInfo* info) {
  constexpr std::string_view kName = "aclrtRepairError";
  if (info == nullptr) return FailNull(kName, "errorInfo");
  if (info->tryRepair == 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "errorInfo->tryRepair",
                     "0",
                     "1, which aclrtGetErrorVerbose says of an error that "
                     "can be repaired");
  }
  if (const aclError error = RequireDevice(kName, device)) return error;
  const int type = Raw(info->errorType);
  if (type != ACL_RT_NO_ERROR && type != ACL_RT_ERROR_MEMORY &&
      type != ACL_RT_ERROR_LINK) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "errorInfo->errorType",
                     Str("{}", type),
                     "ACL_RT_NO_ERROR, ACL_RT_ERROR_MEMORY or "
                     "ACL_RT_ERROR_LINK");
  }
  ClearFaults(device);
  return ACL_SUCCESS;
}

// This machine's memory corrects itself, or ends the process.
aclError GetBrokenMemory(int32_t device, const aclrtMemUceInfo* array,
                         size_t* count) {
  constexpr std::string_view kName = "aclrtGetMemUceInfo";
  if (array == nullptr) return FailNull(kName, "memUceInfoArray");
  if (count == nullptr) return FailNull(kName, "retSize");
  if (const aclError error = RequireDevice(kName, device)) return error;
  *count = 0;
  return ACL_SUCCESS;
}

aclError RepairMemory(int32_t device, const aclrtMemUceInfo* array,
                      size_t count) {
  constexpr std::string_view kName = "aclrtMemUceRepair";
  if (array == nullptr) return FailNull(kName, "memUceInfoArray");
  if (count > ACL_RT_MEM_UCE_INFO_MAX_NUM) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "arraySize",
                     Str("{}", count),
                     Str("at most {}", ACL_RT_MEM_UCE_INFO_MAX_NUM));
  }
  for (size_t i = 0; i < count; ++i) {
    for (const size_t word : array[i].reserved) {
      if (word == 0) continue;
      return FailValue(ACL_ERROR_INVALID_PARAM, kName,
                       Str("memUceInfoArray[{}].reserved", i), Str("{}", word),
                       "zeros");
    }
  }
  return RequireDevice(kName, device);
}

}  // namespace

bool DeviceIsAborted(int device) { return FaultOf(device).aborted(); }

aclError FailAborted(std::string_view function, int device) {
  return Fail(ACL_ERROR_RT_DEVICE_TASK_ABORT, Title::kRuntime,
              Str("{} failed because the tasks of device {} were aborted. Call "
                  "aclrtSetDevice to go on.",
                  function, device));
}

void NoteFault(int device) noexcept { FaultOf(device).faulted.store(true); }

void EndAbort(int device) { FaultOf(device).Resume(); }

void ClearFaults(int device) {
  EndAbort(device);
  FaultOf(device).faulted.store(false);
}

}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  return a::GuardRuntime([&] { return a::AbortDevice(deviceId, timeout); });
}

aclError aclrtSetDeviceTaskAbortCallback(const char* regName,
                                         aclrtDeviceTaskAbortCallback callback,
                                         void* args) {
  return a::GuardRuntime(
      [&] { return a::SetObserver(regName, callback, args); });
}

aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo* errorInfo) {
  return a::GuardRuntime(
      [&] { return a::GetErrorVerbose(deviceId, errorInfo); });
}

aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo* errorInfo) {
  return a::GuardRuntime([&] { return a::RepairError(deviceId, errorInfo); });
}

aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray,
                            size_t arraySize, size_t* retSize) {
  (void)arraySize;
  return a::GuardRuntime(
      [&] { return a::GetBrokenMemory(deviceId, memUceInfoArray, retSize); });
}

aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray,
                           size_t arraySize) {
  return a::GuardRuntime(
      [&] { return a::RepairMemory(deviceId, memUceInfoArray, arraySize); });
}

}  // extern "C"
