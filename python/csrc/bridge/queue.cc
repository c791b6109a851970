// SPDX-License-Identifier: Apache-2.0
#include "bridge/queue.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "bridge/faces.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace flashacl::bridge {
namespace {

// The adapter lets its streams stop at the first failure and report it for as
// long as the process lives. Here a failure is a call's, not the machine's: it
// is reported once, and the next call runs.
void GoOnAfterFailures(aclrtStream stream) {
  thread_local aclrtStream last = nullptr;
  if (stream == last) return;
  if (aclrtSetStreamFailureMode(stream, ACL_CONTINUE_ON_FAILURE) ==
      ACL_SUCCESS) {
    last = stream;
  }
}

}  // namespace

void WaitForStream(c10::DeviceIndex device) {
  // The adapter hands over what its own queue holds, too.
  const aclrtStream stream = c10_npu::getCurrentNPUStream(device).stream();
  GoOnAfterFailures(stream);
  const aclError status = aclrtSynchronizeStream(stream);
  if (status == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  TORCH_CHECK(false, "what was queued on the npu before has failed with ",
              status, ": ", message == nullptr ? "no message" : message);
}

void WaitForDevice(c10::DeviceIndex device) {
  const c10::impl::VirtualGuardImpl guard(kNpu);
  const c10::Device before = guard.exchangeDevice({kNpu, device});
  // The adapter's own queue first.
  c10_npu::getCurrentNPUStream(device).stream();
  aclrtSynchronizeDevice();
  guard.uncheckedSetDevice(before);
}

void* CurrentStream() {
  return c10_npu::getCurrentNPUStream().stream(/*need_empty=*/false);
}

void ForgetMessage() { aclGetRecentErrMsg(); }

c10::DeviceIndex CurrentDevice() {
  return c10::impl::VirtualGuardImpl(kNpu).getDevice().index();
}

}  // namespace flashacl::bridge
