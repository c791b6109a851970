// SPDX-License-Identifier: Apache-2.0
// The chip that programs believe to run on: an Ascend 910B1. They size buffers
// and choose code by these numbers; our own planning never looks at them.
#pragma once

#include <cstdint>

namespace flashacl::acl {

inline constexpr const char* kSocName = "Ascend910B1";
inline constexpr uint32_t kCubeCores = 24;
inline constexpr uint32_t kVectorCores = 48;
inline constexpr int64_t kAiCpuCores = 6;
inline constexpr int64_t kL2Bytes = 201326592;
inline constexpr int64_t kNpuArch = 2201;
inline constexpr int64_t kFormFactor = 3;  // a PCIe card

}  // namespace flashacl::acl
