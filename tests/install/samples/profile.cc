// SPDX-License-Identifier: Apache-2.0
// A profile of a copy, with a mark: its file goes to the folder that is named.
#include <cstring>

#include "acl/acl_prof.h"
#include "check.h"

int main(int, char** arguments) {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  CHECK(aclprofInit(arguments[1], std::strlen(arguments[1])));
  uint32_t device = 0;
  aclprofConfig* const config = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE,
                                                    nullptr, ACL_PROF_ACL_API);
  if (config == nullptr) return 1;
  CHECK(aclprofStart(config));
  void* const stamp = aclprofCreateStamp();
  CHECK(aclprofSetStampTraceMessage(stamp, "a mark", 6));
  CHECK(aclprofMark(stamp));
  aclprofDestroyStamp(stamp);
  void* memory = nullptr;
  CHECK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemsetAsync(memory, 4096, 1, 4096, stream));
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclprofStop(config));
  CHECK(aclprofDestroyConfig(config));
  CHECK(aclprofFinalize());
  CHECK(aclrtFree(memory));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
