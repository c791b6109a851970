// SPDX-License-Identifier: Apache-2.0
// Which process it was, and whether it still runs. A number alone does not say:
// the system gives it to another one day.
#pragma once

#include <cstdint>

namespace flashacl::acl {

// Lies in memory that processes share.
struct ProcessId {
  int32_t pid = 0;
  uint32_t space = 0;  // the pid namespace, 0: the system does not say
  uint64_t start = 0;  // by the system's clock, or 0

  bool operator==(const ProcessId&) const = default;
};

ProcessId ThisProcess();

// False once it has ended, even if its parent has not asked for its status.
// Where the system does not say, as of another namespace's, it is alive.
bool IsAlive(const ProcessId& process);

}  // namespace flashacl::acl
