// SPDX-License-Identifier: Apache-2.0
// A graph that is built by hand: by two numbers it goes on in its own stream or
// in another one, while a third counts how often it is run.
#include <initializer_list>

#include "check.h"

namespace {

aclrtStream NewStream() {
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT));
  return stream;
}

void Add(int64_t* to, const int64_t* what, aclrtStream stream) {
  // The lower half of small numbers.
  CHECK(aclrtReduceAsync(to, what, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                         ACL_INT32, stream, nullptr));
}

void Run() {
  enum { kValue, kLimit, kRuns, kOne, kHundred, kNumbers };
  const int64_t start[kNumbers] = {0, 8, 0, 1, 100};
  void* memory = nullptr;
  CHECK(aclrtMalloc(&memory, sizeof start, ACL_MEM_MALLOC_NORMAL_ONLY));
  CHECK(aclrtMemcpy(memory, sizeof start, start, sizeof start,
                    ACL_MEMCPY_HOST_TO_DEVICE));
  int64_t* const at = static_cast<int64_t*>(memory);

  const aclrtStream head = NewStream();
  const aclrtStream large = NewStream();
  const aclrtStream counter = NewStream();
  aclmdlRI graph = nullptr;
  CHECK(aclmdlRIBuildBegin(&graph, 0));
  CHECK(aclmdlRIBindStream(graph, head, ACL_MODEL_STREAM_FLAG_HEAD));
  CHECK(aclmdlRIBindStream(graph, large, ACL_MODEL_STREAM_FLAG_DEFAULT));
  CHECK(aclmdlRIBindStream(graph, counter, ACL_MODEL_STREAM_FLAG_DEFAULT));
  CHECK(aclrtActiveStream(counter, head));
  CHECK(aclrtSwitchStream(at + kValue, ACL_RT_GREATER, at + kLimit,
                          ACL_RT_SWITCH_INT64, large, nullptr, head));
  Add(at + kValue, at + kOne, head);
  Add(at + kValue, at + kHundred, large);
  Add(at + kRuns, at + kOne, counter);
  CHECK(aclmdlRIEndTask(graph, head));
  CHECK(aclmdlRIBuildEnd(graph, nullptr));

  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  for (const int64_t value : {5, 10}) {
    CHECK(aclrtMemcpy(at + kValue, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclmdlRIExecuteAsync(graph, stream));
    CHECK(aclrtSynchronizeStream(stream));
    int64_t after[kNumbers] = {};
    CHECK(aclrtMemcpy(after, sizeof after, memory, sizeof after,
                      ACL_MEMCPY_DEVICE_TO_HOST));
    std::printf("%d: %d to %d\n", static_cast<int>(after[kRuns]),
                static_cast<int>(value), static_cast<int>(after[kValue]));
  }

  CHECK(aclmdlRIDestroy(graph));
  CHECK(aclrtDestroyStream(stream));
  for (const aclrtStream one : {head, large, counter}) {
    CHECK(aclrtDestroyStream(one));
  }
  CHECK(aclrtFree(memory));
}

}  // namespace

int main() { return RunOnDevice(Run); }
