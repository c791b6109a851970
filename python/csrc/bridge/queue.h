// SPDX-License-Identifier: Apache-2.0
// Order between CPU kernels, which run on the calling thread, and what the
// adapter has queued on streams.
#pragma once

#include <c10/core/Device.h>

namespace flashacl::bridge {

// Waits for all that the calling thread's current stream of `device` has been
// given. What failed in it is thrown with the library's message, once.
void WaitForStream(c10::DeviceIndex device);

// Waits for all streams of `device`. For destructors: failures stay where they
// are.
void WaitForDevice(c10::DeviceIndex device);

// The calling thread's current stream of the current device, an aclrtStream.
// What the adapter's own queue holds is not waited for.
void* CurrentStream();

// Drops what the library says of the calling thread's last failure.
void ForgetMessage();

// The device that the calling thread has set.
c10::DeviceIndex CurrentDevice();

}  // namespace flashacl::bridge
