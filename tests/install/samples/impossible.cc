// SPDX-License-Identifier: Apache-2.0
// Copies of more elements than a vector can hold, and then of as many as memory
// has not: exceptions inside the library, which it answers.
#include <thread>

#include "aclnn/aclnn_base.h"
#include "check.h"

namespace {

// Whether the call is refused with a message.
bool Refused(uint64_t count) {
  const int64_t value = 1;
  return aclCreateIntArray(&value, count) == nullptr &&
         aclGetRecentErrMsg() != nullptr;
}

}  // namespace

int main() {
  CHECK(aclInit(nullptr));
  bool all = true;
  for (int i = 0; i < 1000; ++i) {
    all &= Refused(uint64_t{1} << 60) && Refused(uint64_t{1} << 58);
  }
  // And on another thread.
  bool other = false;
  std::thread([&other] { other = Refused(uint64_t{1} << 60); }).join();
  CHECK(aclFinalize());
  std::printf("%s\n", all && other ? "refused" : "taken");
  return 0;
}
