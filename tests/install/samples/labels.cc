// SPDX-License-Identifier: Apache-2.0
// A graph that is built by hand: a loop adds to a sum until a number of rounds
// is over, and goes on in another stream, which keeps the result.
#include <vector>

#include "check.h"

namespace {

// Numbers in device memory.
struct Numbers {
  explicit Numbers(const std::vector<int32_t>& values) {
    const size_t bytes = values.size() * sizeof(int32_t);
    CHECK(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK(aclrtMemcpy(memory, bytes, values.data(), bytes,
                      ACL_MEMCPY_HOST_TO_DEVICE));
  }
  ~Numbers() { CHECK(aclrtFree(memory)); }
  void* at(size_t n) const { return static_cast<int32_t*>(memory) + n; }
  int32_t Read(size_t n) const {
    int32_t value = 0;
    CHECK(aclrtMemcpy(&value, 4, at(n), 4, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
  }
  void* memory = nullptr;
};

void Add(void* to, const void* what, aclrtStream stream) {
  CHECK(aclrtReduceAsync(to, what, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                         ACL_INT32, stream, nullptr));
}

void Run() {
  enum { kRound, kSum, kResult, kOne, kSeven };
  const Numbers numbers({0, 0, 0, 1, 7});
  aclrtStream loop = nullptr;
  aclrtStream end = nullptr;
  CHECK(aclrtCreateStreamWithConfig(&loop, 0, ACL_STREAM_PERSISTENT));
  CHECK(aclrtCreateStreamWithConfig(&end, 0, ACL_STREAM_PERSISTENT));
  aclrtLabel again = nullptr;
  aclrtLabel done = nullptr;
  CHECK(aclrtCreateLabel(&again));
  CHECK(aclrtCreateLabel(&done));
  std::vector<aclrtLabel> labels = {again, again, again, again, again, done};
  const uint32_t count = static_cast<uint32_t>(labels.size());
  aclrtLabelList list = nullptr;
  CHECK(aclrtCreateLabelList(labels.data(), labels.size(), &list));

  aclmdlRI graph = nullptr;
  CHECK(aclmdlRIBuildBegin(&graph, 0));
  CHECK(aclmdlRIBindStream(graph, loop, ACL_MODEL_STREAM_FLAG_HEAD));
  CHECK(aclmdlRIBindStream(graph, end, ACL_MODEL_STREAM_FLAG_DEFAULT));
  CHECK(aclrtSetLabel(again, loop));
  Add(numbers.at(kRound), numbers.at(kOne), loop);
  Add(numbers.at(kSum), numbers.at(kSeven), loop);
  CHECK(aclrtSwitchLabelByIndex(numbers.at(kRound), count, list, loop));
  CHECK(aclrtSetLabel(done, end));
  CHECK(aclrtMemcpyAsync(numbers.at(kResult), 4, numbers.at(kSum), 4,
                         ACL_MEMCPY_DEVICE_TO_DEVICE, end));
  CHECK(aclmdlRIEndTask(graph, end));
  CHECK(aclmdlRIBuildEnd(graph, nullptr));

  // The second replay finds the number of rounds too large for another one.
  for (int replay = 0; replay < 2; ++replay) {
    CHECK(aclmdlRIExecute(graph, -1));
    std::printf("round %d result %d\n", numbers.Read(kRound),
                numbers.Read(kResult));
  }

  CHECK(aclmdlRIUnbindStream(graph, loop));
  CHECK(aclmdlRIUnbindStream(graph, end));
  CHECK(aclmdlRIDestroy(graph));
  CHECK(aclrtDestroyLabelList(list));
  CHECK(aclrtDestroyLabel(again));
  CHECK(aclrtDestroyLabel(done));
  CHECK(aclrtDestroyStream(loop));
  CHECK(aclrtDestroyStream(end));
}

}  // namespace

int main() { return RunOnDevice(Run); }
