// SPDX-License-Identifier: Apache-2.0
//
// Which chip a program should believe to run on. The runtime decides; this only
// asks it. C++ only: C sees nothing of it. Source: CANN operator development
// API, "PlatformInfo".
#pragma once

#include <stdint.h>

#ifdef __cplusplus
#include <cstdint>
#include <string>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

// The architecture of a chip, numbered as ACL_DEV_ATTR_NPU_ARCH answers it.
enum class NpuArch : uint32_t {
  DAV_1001 = 1001,
  DAV_2002 = 2002,
  DAV_2201 = 2201,
  DAV_3510 = 3510,
  DAV_RESV = 0xFFFF,
};

namespace op {

enum class SocVersion : uint32_t {
  ASCEND910 = 0,
  ASCEND910B,
  ASCEND910_93,
  ASCEND950,
  ASCEND310P,
  RESERVED_VERSION = 99999,
};

// Facts about device 0, asked for once.
class PlatformInfo {
 public:
  PlatformInfo() : name_(aclrtGetSocName()) {}

  bool Valid() const { return Ask(ACL_DEV_ATTR_NPU_ARCH) != 0; }
  NpuArch GetCurNpuArch() const {
    const int64_t arch = Ask(ACL_DEV_ATTR_NPU_ARCH);
    return arch == 0 ? NpuArch::DAV_RESV : static_cast<NpuArch>(arch);
  }
  SocVersion GetSocVersion() const {
    if (name_.find("950") != std::string::npos) return SocVersion::ASCEND950;
    if (name_.find("910_93") != std::string::npos) {
      return SocVersion::ASCEND910_93;
    }
    if (name_.find("910B") != std::string::npos) return SocVersion::ASCEND910B;
    if (name_.find("310P") != std::string::npos) return SocVersion::ASCEND310P;
    if (name_.find("910") != std::string::npos) return SocVersion::ASCEND910;
    return SocVersion::RESERVED_VERSION;
  }
  const std::string& GetSocLongVersion() const { return name_; }
  uint32_t GetCubeCoreNum() const {
    return static_cast<uint32_t>(Ask(ACL_DEV_ATTR_CUBE_CORE_NUM));
  }
  uint32_t GetVectorCoreNum() const {
    return static_cast<uint32_t>(Ask(ACL_DEV_ATTR_VECTOR_CORE_NUM));
  }
  // Bytes in one block of a core's buffer.
  int64_t GetBlockSize() const { return 32; }

 private:
  // 0 if the runtime does not know.
  static int64_t Ask(aclrtDevAttr attribute) {
    int64_t value = 0;
    return aclrtGetDeviceInfo(0, attribute, &value) == ACL_SUCCESS ? value : 0;
  }

  std::string name_;
};

inline const PlatformInfo& GetCurrentPlatformInfo() {
  static const PlatformInfo info;
  return info;
}

}  // namespace op

#endif  // __cplusplus
