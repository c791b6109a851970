// SPDX-License-Identifier: Apache-2.0
// What the examples of these pages share: a device with a stream, tensors in
// its memory, and calls that are checked.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

// Ends the program with the library's message if the call fails.
#define CHECK(call) CheckStatus((call), #call)

inline void CheckStatus(int status, const char* call) {
  if (status == 0) return;
  const char* why = aclGetRecentErrMsg();
  std::printf("%s: %d, %s\n", call, status, why != nullptr ? why : "");
  std::exit(1);
}

// Device 0 and a stream, for the length of the program.
class Device {
 public:
  Device() {
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream_));
  }
  ~Device() {
    aclrtDestroyStream(stream_);
    aclrtResetDevice(0);
    aclFinalize();
  }

  // Phase 2 of an operator, with a workspace of the size that phase 1 said;
  // returns when it is done.
  template <typename Phase2>
  void Run(Phase2 phase2, uint64_t bytes, aclOpExecutor* executor) {
    void* workspace = nullptr;
    if (bytes > 0) {
      CHECK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    CHECK(phase2(workspace, bytes, executor, stream_));
    CHECK(aclrtSynchronizeStream(stream_));
    if (workspace != nullptr) aclrtFree(workspace);
  }

 private:
  aclrtStream stream_ = nullptr;
};

// A tensor in device memory, of FLOAT, FLOAT16, INT64, INT32, UINT8 or BOOL.
class Tensor {
 public:
  // Each number is repeated, so that all elements get one: with shape {2, 16},
  // {1, 2} is a row of ones and a row of twos. Without numbers all are 0.
  Tensor(std::vector<int64_t> shape, aclDataType type,
         std::vector<double> numbers = {0})
      : shape_(shape), type_(type), count_(1) {
    for (const int64_t axis : shape) count_ *= static_cast<size_t>(axis);
    std::vector<char> host(count_ * aclDataTypeSize(type));
    const size_t each = count_ / numbers.size();
    for (size_t i = 0; i < count_; ++i) Store(numbers[i / each], i, host);
    CHECK(aclrtMalloc(&memory_, host.size(), ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(memory_, host.size(), host.data(), host.size(),
                      ACL_MEMCPY_HOST_TO_DEVICE));
    tensor_ = Describe();
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() {
    aclDestroyTensor(tensor_);
    aclrtFree(memory_);
  }

  operator aclTensor*() const { return tensor_; }

  // Another aclTensor over the same memory, for a list, which owns its members.
  aclTensor* Describe() const {
    return aclCreateTensor(shape_.data(), shape_.size(), type_, nullptr, 0,
                           ACL_FORMAT_ND, shape_.data(), shape_.size(),
                           memory_);
  }

  // One line: every `step`-th number.
  void Print(const char* name, size_t step = 1) const {
    std::vector<char> host(count_ * aclDataTypeSize(type_));
    CHECK(aclrtMemcpy(host.data(), host.size(), memory_, host.size(),
                      ACL_MEMCPY_DEVICE_TO_HOST));
    std::printf("%s:", name);
    for (size_t i = 0; i < count_; i += step) {
      std::printf(" %g", Load(i, host));
    }
    std::printf("\n");
  }

 private:
  template <typename T>
  static void Put(T value, size_t i, std::vector<char>& host) {
    std::memcpy(host.data() + i * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  static T Get(size_t i, const std::vector<char>& host) {
    T value;
    std::memcpy(&value, host.data() + i * sizeof(T), sizeof(T));
    return value;
  }

  void Store(double x, size_t i, std::vector<char>& host) const {
    if (type_ == ACL_FLOAT) return Put(static_cast<float>(x), i, host);
    if (type_ == ACL_FLOAT16) {
      return Put(aclFloatToFloat16(static_cast<float>(x)), i, host);
    }
    if (type_ == ACL_INT64) return Put(static_cast<int64_t>(x), i, host);
    if (type_ == ACL_INT32) return Put(static_cast<int32_t>(x), i, host);
    Put(static_cast<uint8_t>(x), i, host);
  }
  double Load(size_t i, const std::vector<char>& host) const {
    if (type_ == ACL_FLOAT) return Get<float>(i, host);
    if (type_ == ACL_FLOAT16)
      return aclFloat16ToFloat(Get<aclFloat16>(i, host));
    if (type_ == ACL_INT64) return static_cast<double>(Get<int64_t>(i, host));
    if (type_ == ACL_INT32) return Get<int32_t>(i, host);
    return Get<uint8_t>(i, host);
  }

  std::vector<int64_t> shape_;
  aclDataType type_;
  size_t count_;
  void* memory_ = nullptr;
  aclTensor* tensor_ = nullptr;
};
