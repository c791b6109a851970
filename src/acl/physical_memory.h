// SPDX-License-Identifier: Apache-2.0
// Memory without an address: an anonymous file, which processes can share.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "acl/handle.h"
#include "acl/memory.h"

namespace flashacl::acl {

class SharedObject;

struct PhysicalMemory {
  static constexpr HandleKind kHandleKind = HandleKind::kPhysicalMemory;

  int file = -1;
  size_t size = 0;
  size_t taken = 0;  // from the device; 0: another process took it
  int32_t device_id = 0;

  std::mutex mutex;
  std::shared_ptr<SharedObject> exported;  // under `mutex`; null: not yet

  PhysicalMemory() = default;
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;
  ~PhysicalMemory() {
    if (file >= 0) close(file);
    ReturnDeviceBytes(taken);
  }
};

}  // namespace flashacl::acl
