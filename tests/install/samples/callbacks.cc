// SPDX-License-Identifier: Apache-2.0
// Two threads serve one stream: one reports callbacks, the other is for host
// functions. The calls run in the order in which they were submitted.
#include <atomic>
#include <string>
#include <thread>

#include "check.h"

namespace {

std::string text;

void Append(void* what) { text += static_cast<const char*>(what); }

}  // namespace

int main() {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtContext context = nullptr;
  CHECK(aclrtGetCurrentContext(&context));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));

  std::atomic<bool> stop(false);
  std::thread reports([&] {
    CHECK(aclrtSetCurrentContext(context));
    while (!stop) (void)aclrtProcessReport(50);
  });
  std::thread functions([&] {
    CHECK(aclrtSetCurrentContext(context));
    while (!stop) (void)aclrtProcessHostFunc(50);
  });
  const uint64_t report_id = reports.native_handle();
  const uint64_t function_id = functions.native_handle();
  CHECK(aclrtSubscribeReport(report_id, stream));
  CHECK(aclrtSubscribeHostFunc(function_id, stream));

  char first[] = "callback ";
  char second[] = "host function ";
  char third[] = "callback again";
  CHECK(aclrtLaunchCallback(Append, first, ACL_CALLBACK_BLOCK, stream));
  CHECK(aclrtLaunchHostFunc(stream, Append, second));
  CHECK(aclrtLaunchCallback(Append, third, ACL_CALLBACK_BLOCK, stream));
  CHECK(aclrtSynchronizeStream(stream));
  std::printf("%s\n", text.c_str());

  CHECK(aclrtUnSubscribeReport(report_id, stream));
  CHECK(aclrtUnSubscribeHostFunc(function_id, stream));
  stop = true;
  reports.join();
  functions.join();
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
