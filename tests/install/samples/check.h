// SPDX-License-Identifier: Apache-2.0
// What the samples share: a call that fails ends the program, and says why; and
// what stands around those that need no more than a device.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "acl/acl.h"

inline void Check(int status, const char* call) {
  if (status == 0) return;
  const char* const message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d %s\n", call, status,
               message == nullptr ? "" : message);
  std::exit(1);
}

#define CHECK(call) Check(static_cast<int>(call), #call)

// A whole program: `run`, on device 0.
inline int RunOnDevice(void (*run)()) {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  run();
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
