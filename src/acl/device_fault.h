// SPDX-License-Identifier: Apache-2.0
// What happened to a device: its work was aborted, or a task of it failed.
#pragma once

#include <string_view>

#include "acl/acl_base.h"

namespace flashacl::acl {

// Between aclrtDeviceTaskAbort and the next aclrtSetDevice, aclrtResetDevice or
// aclrtRepairError a device takes no work.
bool DeviceIsAborted(int device);

// 107022, with a message.
aclError FailAborted(std::string_view function, int device);

// Remembers that a task of the device failed. Allocates nothing.
void NoteFault(int device) noexcept;

// Lets the device take work again, unless it is just being aborted. The second
// also forgets that a task failed.
void EndAbort(int device);
void ClearFaults(int device);

}  // namespace flashacl::acl
