// SPDX-License-Identifier: Apache-2.0
// Facts about the processor this process runs on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/backend.h"

namespace flashacl::cpu {

// Name and instruction sets from the text of Linux's /proc/cpuinfo; cache sizes
// stay DeviceInfo's defaults. Only instruction sets that matter to kernels are
// listed, under cpuinfo's names and in order of age.
DeviceInfo ParseCpuInfo(std::string_view text);

// Overwrites the cache sizes that `directory` tells: one folder index0, index1,
// ... per cache, as in /sys/devices/system/cpu/cpu0/cache.
void ReadCaches(const std::string& directory, DeviceInfo& device);

// Whether vector code is compiled for one of the targets that are supported,
// which are Highway's bits: kUnsupported says what it is compiled for.
Status CheckCompiledFor(int64_t supported);

// What vector code is run for, unless it was dispatched before: the target
// of this name ("AVX2"), or the best there is if it is empty.
// kInvalidArgument lists what this processor has and vector code is compiled
// for; kUnsupported: there is none.
Status LimitVectorTarget(std::string_view name);

// The name of that target; "none" where vector code cannot run.
std::string VectorTarget();

// The names of all targets that vector code is compiled for, best first.
std::vector<std::string> CompiledTargets();

// The processor this process runs on, from /proc, /sys and sysconf; what none
// of them knows keeps its default.
DeviceInfo DescribeThisCpu();

}  // namespace flashacl::cpu
