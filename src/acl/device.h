// SPDX-License-Identifier: Apache-2.0
// Devices: how many there are, and who has one open. Every device is this
// machine's CPUs; ids exist because programs count with them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "acl/acl_base.h"

namespace flashacl::acl {

class Context;

inline constexpr int kMaxDevices = 64;

// One, unless FLASHACL_DEVICES or ASCEND_RT_VISIBLE_DEVICES says otherwise.
int DeviceCount();

// The ids the user gave the devices 0, 1, ... in ASCEND_RT_VISIBLE_DEVICES, or
// just those numbers.
const std::vector<int>& VisibleDevices();

// 0, or 107001 with a message.
aclError RequireDevice(std::string_view function, int64_t device);

// The device that threads without a context use, from aclInit's file; -1: none.
void SetDefaultDevice(int device);

// The default context of the configured default device, opened if need be;
// null if none is configured.
std::shared_ptr<Context> DefaultDeviceContext();

}  // namespace flashacl::acl
