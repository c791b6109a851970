#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program that everybody writes first - two tensors are added on a stream -
# compiles and runs against the prefix with every call checked.
# labels: prefix;sanitized
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >add.cpp <<'SOURCE'
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"

#define CHECK(call)                                              \
  do {                                                           \
    const int status = static_cast<int>(call);                   \
    if (status != 0) {                                           \
      const char* why = aclGetRecentErrMsg();                    \
      std::printf("%s: %d %s\n", #call, status, why ? why : ""); \
      return 1;                                                  \
    }                                                            \
  } while (false)

// Host numbers as a tensor on the device.
static int Upload(const std::vector<float>& host,
                  const std::vector<int64_t>& shape, void** device,
                  aclTensor** tensor) {
  const size_t bytes = host.size() * sizeof(float);
  CHECK(aclrtMalloc(device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpy(*device, bytes, host.data(), bytes,
                    ACL_MEMCPY_HOST_TO_DEVICE));
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size() - 1; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * shape[axis];
  }
  *tensor = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT,
                            strides.data(), 0, ACL_FORMAT_ND, shape.data(),
                            shape.size(), *device);
  return *tensor == nullptr;
}

int main() {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));

  const std::vector<int64_t> shape = {4, 2};
  std::vector<float> result(8, 0.0f);
  void* memory[3] = {};
  aclTensor* tensors[3] = {};
  CHECK(Upload({0, 1, 2, 3, 4, 5, 6, 7}, shape, &memory[0], &tensors[0]));
  CHECK(Upload({1, 1, 1, 2, 2, 2, 3, 3}, shape, &memory[1], &tensors[1]));
  CHECK(Upload(result, shape, &memory[2], &tensors[2]));
  float factor = 1.2f;
  aclScalar* alpha = aclCreateScalar(&factor, ACL_FLOAT);

  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnAddGetWorkspaceSize(tensors[0], tensors[1], alpha, tensors[2],
                                 &bytes, &executor));
  void* workspace = nullptr;
  if (bytes > 0) {
    CHECK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  }
  CHECK(aclnnAdd(workspace, bytes, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtMemcpy(result.data(), 8 * sizeof(float), memory[2],
                    8 * sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST));
  for (float number : result) std::printf("%g\n", number);

  CHECK(aclnnInplaceAddGetWorkspaceSize(tensors[0], tensors[1], alpha, &bytes,
                                        &executor));
  CHECK(aclnnInplaceAdd(nullptr, bytes, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));
  std::vector<float> again(8);
  CHECK(aclrtMemcpy(again.data(), 8 * sizeof(float), memory[0],
                    8 * sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST));
  if (again != result) return 2;

  for (aclTensor* tensor : tensors) CHECK(aclDestroyTensor(tensor));
  CHECK(aclDestroyScalar(alpha));
  for (void* block : memory) CHECK(aclrtFree(block));
  if (workspace != nullptr) CHECK(aclrtFree(workspace));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
SOURCE
printf '%s\n' 1.2 2.2 3.2 5.4 6.4 7.4 9.6 10.6 >want

flags=()
[ -z "${FLASHACL_SANITIZE:-}" ] || flags=("-fsanitize=$FLASHACL_SANITIZE")
# shellcheck disable=SC1091
. "$FLASHACL_PREFIX/set_env.sh"
"${CXX:-g++}" -std=c++11 -O1 -Wall -Werror "${flags[@]}" add.cpp -o add \
  "-I$ASCEND_HOME_PATH/include" "-L$ASCEND_HOME_PATH/lib64" \
  -lascendcl -lnnopbase -lopapi
./add >got
diff want got
