// SPDX-License-Identifier: Apache-2.0
// Facts about the processor this process runs on.
#pragma once

#include <string>
#include <string_view>

#include "plan/backend.h"

namespace flashacl::cpu {

// Name and instruction sets from the text of Linux's /proc/cpuinfo; cache sizes
// stay DeviceInfo's defaults. Only instruction sets that matter to kernels are
// listed, under cpuinfo's names and in order of age.
DeviceInfo ParseCpuInfo(std::string_view text);

// Overwrites the cache sizes that `directory` tells: one folder index0, index1,
// ... per cache, as in /sys/devices/system/cpu/cpu0/cache.
void ReadCaches(const std::string& directory, DeviceInfo& device);

// The processor this process runs on, from /proc, /sys and sysconf; what none
// of them knows keeps its default.
DeviceInfo DescribeThisCpu();

}  // namespace flashacl::cpu
