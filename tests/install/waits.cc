// SPDX-License-Identifier: Apache-2.0
// Copies on two streams, ordered in every way a program may: what it reads at
// the end was written by a thread that only the library knows.
#include <cstdio>
#include <cstring>
#include <vector>

#include "acl/acl.h"

namespace {

constexpr size_t kBytes = 1 << 16;

bool Works(int status, const char* what) {
  if (status == 0) return true;
  std::fprintf(stderr, "%s: %d\n", what, status);
  return false;
}

void Touch(void* data) { std::memset(data, 3, kBytes); }

}  // namespace

#define TRY(call) \
  if (!Works(call, #call)) return 1

int main() {
  TRY(aclInit(nullptr));
  TRY(aclrtSetDevice(0));
  aclrtStream one, other;
  TRY(aclrtCreateStream(&one));
  TRY(aclrtCreateStream(&other));
  aclrtEvent event;
  TRY(aclrtCreateEvent(&event));
  void *host, *back, *device;
  TRY(aclrtMallocHost(&host, kBytes));
  TRY(aclrtMallocHost(&back, kBytes));
  TRY(aclrtMalloc(&device, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  int sum = 0;
  for (int n = 0; n < 50; ++n) {
    std::memset(host, n, kBytes);
    TRY(aclrtMemcpyAsync(device, kBytes, host, kBytes,
                         ACL_MEMCPY_HOST_TO_DEVICE, one));
    TRY(aclrtRecordEvent(event, one));
    TRY(aclrtStreamWaitEvent(other, event));
    TRY(aclrtMemcpyAsync(back, kBytes, device, kBytes,
                         ACL_MEMCPY_DEVICE_TO_HOST, other));
    if (n % 3 == 0) {
      TRY(aclrtSynchronizeStream(other));
    } else if (n % 3 == 1) {
      TRY(aclrtRecordEvent(event, other));
      TRY(aclrtSynchronizeEvent(event));
    } else {
      TRY(aclrtLaunchHostFunc(other, &Touch, back));
      aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
      while (status != ACL_STREAM_STATUS_COMPLETE) {
        TRY(aclrtStreamQuery(other, &status));
      }
    }
    sum += static_cast<const char*>(back)[kBytes - 1];
  }
  std::vector<char> pageable(kBytes);
  TRY(aclrtMemcpyAsync(pageable.data(), kBytes, device, kBytes,
                       ACL_MEMCPY_DEVICE_TO_HOST, other));
  sum += pageable[0];
  TRY(aclrtFreeHost(host));
  TRY(aclrtFreeHost(back));
  TRY(aclrtFree(device));
  TRY(aclrtDestroyEvent(event));
  TRY(aclrtDestroyStream(one));
  TRY(aclrtDestroyStream(other));
  TRY(aclrtResetDevice(0));
  TRY(aclFinalize());
  std::printf("%d\n", sum);
  return 0;
}
