// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program that ignores what its calls answer: tells stderr of
// every code and message, and whether what it reads back is all zeros.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace {

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int Tell(const char* name, int answer) {
  const char* message = aclGetRecentErrMsg();
  if (answer == 0 && message == nullptr) return answer;
  std::fprintf(stderr, "listener: %s %d ", name, answer);
  // One line, whatever the message has.
  for (const char* at = message == nullptr ? "" : message; *at != 0; ++at) {
    std::fputc(*at == '\n' ? ' ' : *at, stderr);
  }
  std::fputc('\n', stderr);
  return answer;
}

}  // namespace

extern "C" {

aclError aclrtMemcpy(void* dst, size_t dest_max, const void* src, size_t count,
                     aclrtMemcpyKind kind) {
  const int answer =
      Tell("aclrtMemcpy", Next<decltype(aclrtMemcpy)>("aclrtMemcpy")(
                              dst, dest_max, src, count, kind));
  if (answer == 0 && kind == ACL_MEMCPY_DEVICE_TO_HOST) {
    const char* const bytes = static_cast<const char*>(dst);
    const auto zeros = std::count(bytes, bytes + count, '\0');
    std::fprintf(stderr, "listener: read %zu bytes, %zu of them 0\n", count,
                 static_cast<size_t>(zeros));
  }
  return answer;
}

aclError aclrtFree(void* address) {
  return Tell("aclrtFree", Next<decltype(aclrtFree)>("aclrtFree")(address));
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  return Tell("aclDestroyTensor",
              Next<decltype(aclDestroyTensor)>("aclDestroyTensor")(tensor));
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return Tell("aclDestroyIntArray",
              Next<decltype(aclDestroyIntArray)>("aclDestroyIntArray")(array));
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return Tell("aclrtDestroyStream",
              Next<decltype(aclrtDestroyStream)>("aclrtDestroyStream")(stream));
}

aclError aclrtResetDevice(int32_t device) {
  return Tell("aclrtResetDevice",
              Next<decltype(aclrtResetDevice)>("aclrtResetDevice")(device));
}

aclError aclFinalize() {
  return Tell("aclFinalize", Next<decltype(aclFinalize)>("aclFinalize")());
}

}  // extern "C"
