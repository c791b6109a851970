// SPDX-License-Identifier: Apache-2.0
// A graph of two streams that is captured once and replayed: it adds, and what
// it adds is replaced before each replay comes to it.
#include <vector>

#include "aclnnop/aclnn_add.h"
#include "check.h"

namespace {

struct Vector {
  explicit Vector(float value) {
    const std::vector<float> host(4, value);
    CHECK(aclrtMalloc(&data, 16, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(data, 16, host.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE));
    const int64_t shape[] = {4};
    const int64_t stride[] = {1};
    tensor = aclCreateTensor(shape, 1, ACL_FLOAT, stride, 0, ACL_FORMAT_ND,
                             shape, 1, data);
  }
  ~Vector() {
    CHECK(aclDestroyTensor(tensor));
    CHECK(aclrtFree(data));
  }
  float First() const {
    float value = 0;
    CHECK(aclrtMemcpy(&value, 4, data, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
  }
  void* data = nullptr;
  aclTensor* tensor = nullptr;
};

void Add(const Vector& a, const Vector& b, const Vector& out,
         aclrtStream stream) {
  float one = 1;
  aclScalar* const alpha = aclCreateScalar(&one, ACL_FLOAT);
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnAddGetWorkspaceSize(a.tensor, b.tensor, alpha, out.tensor, &bytes,
                                 &executor));
  CHECK(aclnnAdd(nullptr, bytes, executor, stream));
  CHECK(aclDestroyScalar(alpha));
}

void Run() {
  aclrtStream main = nullptr;
  aclrtStream side = nullptr;
  aclrtStream updates = nullptr;
  aclrtEvent fork = nullptr;
  aclrtEvent join = nullptr;
  aclrtEvent updated = nullptr;
  CHECK(aclrtCreateStream(&main));
  CHECK(aclrtCreateStream(&side));
  CHECK(aclrtCreateStream(&updates));
  CHECK(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC));
  CHECK(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC));
  CHECK(aclrtCreateEventWithFlag(&updated, ACL_EVENT_EXTERNAL));
  const Vector one(1), ten(10), hundred(100);
  Vector sum(0), total(0);

  CHECK(aclmdlRICaptureBegin(main, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK(aclrtRecordEvent(fork, main));
  CHECK(aclrtStreamWaitEvent(side, fork));
  CHECK(aclrtStreamWaitEvent(side, updated));
  CHECK(aclrtResetEvent(updated, side));
  aclrtTaskGrp group = nullptr;
  CHECK(aclmdlRICaptureTaskGrpBegin(side));
  Add(one, ten, sum, side);
  CHECK(aclmdlRICaptureTaskGrpEnd(side, &group));
  CHECK(aclrtRecordEvent(join, side));
  CHECK(aclrtStreamWaitEvent(main, join));
  Add(total, sum, total, main);
  aclmdlRI graph = nullptr;
  CHECK(aclmdlRICaptureEnd(main, &graph));

  for (const Vector* what : {&ten, &hundred, &ten}) {
    CHECK(aclmdlRIExecuteAsync(graph, main));
    CHECK(aclmdlRICaptureTaskUpdateBegin(updates, group));
    Add(one, *what, sum, updates);
    CHECK(aclmdlRICaptureTaskUpdateEnd(updates));
    CHECK(aclrtRecordEvent(updated, updates));
    CHECK(aclrtSynchronizeStream(main));
    std::printf("%g ", total.First());
  }
  std::printf("\n");

  CHECK(aclmdlRIDestroy(graph));
  CHECK(aclrtDestroyEvent(fork));
  CHECK(aclrtDestroyEvent(join));
  CHECK(aclrtDestroyEvent(updated));
  CHECK(aclrtDestroyStream(main));
  CHECK(aclrtDestroyStream(side));
  CHECK(aclrtDestroyStream(updates));
}

}  // namespace

int main() { return RunOnDevice(Run); }
