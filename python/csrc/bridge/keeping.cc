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
// once.
bool IsWatched() {
  static const bool watched = !Variable("FLASHACL_STRICT").empty() ||
                              !Variable("FLASHACL_TRACE").empty() ||
                              !Variable("FLASHACL_RECORD").empty() ||
                              Variable("TASK_QUEUE_ENABLE") != "0" ||
                              Variable("ASCEND_LAUNCH_BLOCKING") == "1";
  return watched;
}

bool IsCounted() {
  static FlopCountContext& flops = FlopCountContext::GetInstance();
  return flops.isEnabled() || c10_npu::is_core_control_enabled();
}

bool IsCaptured() {
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  return aclmdlRICaptureGetInfo(CurrentStream(), &status, nullptr) !=
             ACL_SUCCESS ||
         status != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
}
#endif

}  // namespace

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
