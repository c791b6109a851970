// SPDX-License-Identifier: Apache-2.0
// Tells the program about tasks that failed on a stream.
#pragma once

#include <cstdint>

#include "acl/acl_rt.h"

// What the accessors of the C API read.
struct aclrtExceptionInfo {
  uint32_t task_id;
  uint32_t stream_id;
  uint32_t thread_id;  // that submitted the task
  uint32_t device_id;
  uint32_t code;
};

namespace flashacl::acl {

// Calls the program's callback, if it has set one.
void CallExceptionCallback(aclrtExceptionInfo info);

}  // namespace flashacl::acl
