// SPDX-License-Identifier: Apache-2.0
// Device, context, streams, events and asynchronous copies: two streams hand a
// buffer on, and events say when and how long.
#include <cstring>

#include "check.h"

int main() {
  CHECK(aclInit(nullptr));
  uint32_t devices = 0;
  CHECK(aclrtGetDeviceCount(&devices));
  CHECK(aclrtSetDevice(0));
  aclrtContext context = nullptr;
  CHECK(aclrtCreateContext(&context, 0));
  CHECK(aclrtSetCurrentContext(context));

  aclrtStream writer = nullptr;
  aclrtStream reader = nullptr;
  CHECK(aclrtCreateStream(&writer));
  CHECK(aclrtCreateStreamWithConfig(
      &reader, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
  aclrtEvent start = nullptr;
  aclrtEvent written = nullptr;
  CHECK(aclrtCreateEventWithFlag(&start, ACL_EVENT_TIME_LINE));
  CHECK(
      aclrtCreateEventWithFlag(&written, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));

  const size_t bytes = 1 << 20;
  void* from = nullptr;
  void* device = nullptr;
  void* to = nullptr;
  CHECK(aclrtMallocHost(&from, bytes));
  CHECK(aclrtMallocHost(&to, bytes));
  CHECK(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  std::memset(from, 0x5a, bytes);

  CHECK(aclrtRecordEvent(start, writer));
  CHECK(aclrtMemcpyAsync(device, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE,
                         writer));
  CHECK(aclrtRecordEvent(written, writer));
  CHECK(aclrtStreamWaitEvent(reader, written));
  CHECK(aclrtMemcpyAsync(to, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST,
                         reader));
  CHECK(aclrtSynchronizeStreamWithTimeout(reader, 10000));
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  CHECK(aclrtQueryEventStatus(written, &status));
  float ms = -1;
  CHECK(aclrtEventElapsedTime(&ms, start, written));
  std::printf("copied %d, recorded %d, took time %d, devices %d\n",
              std::memcmp(from, to, bytes) == 0,
              status == ACL_EVENT_RECORDED_STATUS_COMPLETE, ms >= 0,
              devices > 0);

  CHECK(aclrtFree(device));
  CHECK(aclrtFreeHost(from));
  CHECK(aclrtFreeHost(to));
  CHECK(aclrtDestroyEvent(start));
  CHECK(aclrtDestroyEvent(written));
  CHECK(aclrtDestroyStream(writer));
  CHECK(aclrtDestroyStream(reader));
  CHECK(aclrtDestroyContext(context));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
