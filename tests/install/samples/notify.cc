// SPDX-License-Identifier: Apache-2.0
// One stream waits for a notify that another records, and for a word that the
// other writes: five rounds of a copy that must not come too early.
#include "check.h"

int main() {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream first = nullptr;
  aclrtStream second = nullptr;
  CHECK(aclrtCreateStream(&first));
  CHECK(aclrtCreateStream(&second));
  aclrtNotify notify = nullptr;
  CHECK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
  void* memory = nullptr;
  CHECK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
  CHECK(aclrtMemset(memory, 64, 0, 64));
  uint64_t* const words = static_cast<uint64_t*>(memory);

  int right = 0;
  for (uint64_t round = 1; round <= 5; ++round) {
    CHECK(aclrtWaitAndResetNotify(notify, second, 0));
    CHECK(aclrtMemcpyAsync(words + 1, 8, words, 8, ACL_MEMCPY_DEVICE_TO_DEVICE,
                           second));
    CHECK(aclrtValueWrite(words + 2, round, 0, second));
    CHECK(aclrtValueWrite(words, round, 0, first));
    CHECK(aclrtRecordNotify(notify, first));
    CHECK(aclrtValueWait(words + 2, round, ACL_STREAM_WAIT_VALUE_EQ, first));
    CHECK(aclrtSynchronizeStream(first));
    uint64_t seen = 0;
    CHECK(aclrtMemcpy(&seen, 8, words + 1, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    right += seen == round;
  }
  std::printf("%d of 5 in order\n", right);

  CHECK(aclrtDestroyNotify(notify));
  CHECK(aclrtFree(memory));
  CHECK(aclrtDestroyStream(first));
  CHECK(aclrtDestroyStream(second));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
