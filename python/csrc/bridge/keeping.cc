// SPDX-License-Identifier: Apache-2.0
#include "bridge/keeping.h"

#include <ATen/record_function.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "bridge/queue.h"
#if FLASHACL_BRIDGE_KEEPS
#include "third_party/acl/inc/acl/acl_rt.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/flopcount/FlopCountContext.h"
#endif

namespace flashacl::bridge {
namespace {

std::atomic<bool> keeping{true};

#if FLASHACL_BRIDGE_KEEPS

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// What does not change while the process lives: library and adapter read these
// once, with the first call. Not a static of the function: a fork amid its
// guard would leave that locked in the child.
bool IsWatched() {
  enum { kUnknown, kNo, kYes };
  static std::atomic<int> watched{kUnknown};
  int found = watched.load(std::memory_order_relaxed);
  if (found == kUnknown) {
    const bool is = !Variable("FLASHACL_STRICT").empty() ||
                    !Variable("FLASHACL_TRACE").empty() ||
                    !Variable("FLASHACL_RECORD").empty() ||
                    Variable("TASK_QUEUE_ENABLE") != "0" ||
                    Variable("ASCEND_LAUNCH_BLOCKING") == "1";
    found = is ? kYes : kNo;
    watched.store(found, std::memory_order_relaxed);
  }
  return found == kYes;
}

FlopCountContext* flops = nullptr;

bool IsCounted() {
  return flops->isEnabled() || c10_npu::is_core_control_enabled();
}

bool IsCaptured() {
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  return aclmdlRICaptureGetInfo(CurrentStream(), &status, nullptr) !=
             ACL_SUCCESS ||
         status != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
}
#endif

}  // namespace

void InstallKeeping() {
#if FLASHACL_BRIDGE_KEEPS
  flops = &FlopCountContext::GetInstance();
#endif
}

bool MayKeep() {
#if FLASHACL_BRIDGE_KEEPS
  return keeping.load(std::memory_order_relaxed) && !IsWatched() &&
         !at::hasCallbacks() && !IsCounted() && !IsCaptured();
#else
  return false;
#endif
}

bool SetKeeping(bool on) { return keeping.exchange(on); }

}  // namespace flashacl::bridge
